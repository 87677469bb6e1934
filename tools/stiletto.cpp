// SPDX-License-Identifier: Apache-2.0
// The `stiletto` command: a table of sub-commands, of which each takes its own arguments and returns the exit
// status. Status 2 and a usage text answer arguments that make no sense.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "info/machine.hpp"

namespace {

using Arguments = std::span<const std::string_view>;

struct Command {
  const char* name;
  const char* arguments;
  const char* purpose;
  int (*run)(Arguments arguments);
};

int info(Arguments arguments);

constexpr std::array commands = {
    Command{"info", "[--json]", "what this machine has, what will be used, and what is missing", info},
};

std::string usage() {
  std::string result = "usage: stiletto COMMAND [ARGUMENT...]\n\n";
  for (const Command& command : commands) {
    std::string line = std::string("  ") + command.name + " " + command.arguments;
    line.resize(std::max<std::size_t>(line.size() + 2, 20), ' ');
    result += line + command.purpose + "\n";
  }
  return result + "  --help            this text\n  --version         the version of the library\n";
}

/// What is wrong, then how it is meant.
int refuse(const std::string& problem) {
  std::fprintf(stderr, "stiletto: %s\n\n%s", problem.c_str(), usage().c_str());
  return 2;
}

int info(Arguments arguments) {
  bool json = false;
  for (const std::string_view argument : arguments) {
    if (argument != "--json")
      return refuse("info does not know the argument \"" + std::string(argument) + "\"");
    json = true;
  }
  const stiletto::detail::Machine machine = stiletto::detail::inspect_machine();
  std::fputs((json ? machine_json(machine) : machine_text(machine)).c_str(), stdout);
  return 0;
}

int run(Arguments arguments) {
  if (arguments.empty()) return refuse("a command is missing");
  const std::string_view name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(usage().c_str(), stdout);
    return 0;
  }
  if (name == "--version") {
    std::printf("stiletto %s\n", STILETTO_VERSION);
    return 0;
  }
  for (const Command& command : commands)
    if (name == command.name) return command.run(arguments.subspan(1));
  return refuse("there is no command \"" + std::string(name) + "\"");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string_view> arguments(argv + std::min(argc, 1), argv + argc);
    const int status = run(arguments);
    // A full disk or a closed pipe is a failure, not an empty answer.
    if (std::fflush(stdout) == 0) return status;
    std::perror("stiletto: the output could not be written");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stiletto: %s\n", error.what());
  }
  return 1;
}
