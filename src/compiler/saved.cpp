// SPDX-License-Identifier: Apache-2.0
// Compiled functions as files, and back.
#include "compiler/executable.hpp"
#include "compiler/graph_archive.hpp"
#include "compiler/plan_file.hpp"
#include "core/text.hpp"
#include "stiletto/error.hpp"

namespace stiletto::detail {

void Executable::save(const std::filesystem::path& path, const std::vector<std::uint64_t>& sizes) const {
  if (!captures_.empty()) {
    std::string captured;
    for (std::size_t i = 0; i < captures_.size(); ++i)
      captured += text(i == 0 ? "" : ", ", captures_[i].dtype(), captures_[i].shape());
    throw ArgumentError(text("save: the function captures ", captures_.size(),
                             captures_.size() == 1 ? " array (" : " arrays (", captured,
                             "), whose contents a plan does not hold; pass them as arguments"));
  }
  try {
    write(path, sizes);
  } catch (const ArgumentError& error) {
    throw ArgumentError(text("save: ", error.what()));
  } catch (const DeviceError& error) {
    throw DeviceError(text("save: ", error.what()));
  }
}

void Executable::write(const std::filesystem::path& path, const std::vector<std::uint64_t>& sizes) const {
  Writer body;
  body(trace_text_, arguments_, structures_, numbers_, lowered_, device_, sizes);
  if (plan_) plan_->save(body);
  write_plan_file(path, text("on ", device_, '\n', plan_ ? plan_->describe() : "nothing to compute"),
                  body.bytes);
}

std::shared_ptr<const Executable> Executable::load(const std::filesystem::path& path,
                                                   const Allocator& allocator,
                                                   std::vector<std::uint64_t>& sizes) {
  try {
    const std::string body = read_plan_file(path);
    Reader reader(body);
    const auto result = std::make_shared<Executable>();
    Executable& e = *result;
    reader(e.trace_text_, e.arguments_, e.structures_, e.numbers_, e.lowered_, e.device_, sizes);
    e.allocator_ = allocator;
    if (!e.lowered_.graph.stores.empty())
      e.plan_ = backend_for(e.device_).load(reader, e.lowered_.graph, e.device_);
    reader.end();
    e.complete();
    return result;
  } catch (const ArchiveError& error) {
    throw ArgumentError(text("load: ", path.string(), " ", error.what(), "; save it again"));
  } catch (const ArgumentError& error) {
    throw ArgumentError(text("load: ", error.what()));
  } catch (const DeviceError& error) {
    throw DeviceError(text("load: ", path.string(), ": ", error.what()));
  }
}

void Executable::check_signature(const std::filesystem::path& path, std::size_t arguments,
                                 std::size_t results) const {
  auto refuse = [&](const char* what, std::size_t saved, std::size_t asked) {
    throw ArgumentError(text("load: ", path.string(), " is a function with ", saved, " ", what,
                             saved == 1 ? "" : "s", ", and the signature has ", asked,
                             "; load it as what it was compiled as"));
  };
  if (structures_.size() != arguments) refuse("argument", structures_.size(), arguments);
  if (lowered_.results.size() != results) refuse("result", lowered_.results.size(), results);
}

}  // namespace stiletto::detail
