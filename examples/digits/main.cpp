// SPDX-License-Identifier: Apache-2.0
// Classifies 1,797 handwritten digits with a two-layer network: one compiled function per layer. Shows the
// traced graphs, the accuracy, what went wrong, and the time per call beside jit and a loop written by hand.
// Runs on the GPU where there is one, and then compares its answers with the CPU's as well.
// Exit status: 0 when the loop agrees on every digit and the held-out accuracy is at least 97 %, else 1.
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <stiletto/stiletto.hpp>

#include "data.hpp"
#include "hand_written.hpp"
#include "machine.hpp"
#include "report.hpp"
#include "terminal.hpp"
#include "timing.hpp"

namespace st = stiletto;

namespace {

constexpr double kRequiredAccuracy = 0.97;  // on the held-out pictures

// A layer is an ordinary function of arrays: x is (pictures, inputs), w (inputs, outputs) and b (outputs).
st::Array hidden_layer(const st::Array& x, const st::Array& w, const st::Array& b) {
  return st::relu(st::matmul(x, w) + b);
}

st::Array output_layer(const st::Array& x, const st::Array& w, const st::Array& b) {
  return st::matmul(x, w) + b;
}

struct Parameters {
  st::Array w1, b1, w2, b2;
};

Parameters upload(const digits::Weights& weights, st::Device device) {
  return {st::from_data(weights.w1, {weights.inputs, weights.hidden}, device),
          st::from_data(weights.b1, {weights.hidden}, device),
          st::from_data(weights.w2, {weights.hidden, weights.outputs}, device),
          st::from_data(weights.b2, {weights.outputs}, device)};
}

// Both layers, compiled for as many pictures as x holds. Compiling traces a layer with symbolic arrays and
// builds one graph of it; calling the result runs that graph.
class Network {
 public:
  Network(const Parameters& p, const st::Array& x)
      : p_(p),
        first_(st::compile(hidden_layer, x, p.w1, p.b1)),
        second_(st::compile(output_layer, first_(x, p.w1, p.b1), p.w2, p.b2)) {}

  st::Array operator()(const st::Array& x) const {
    const st::Array hidden = first_(x, p_.w1, p_.b1);
    return second_(hidden, p_.w2, p_.b2);
  }

  const st::Graph& first_graph() const { return first_.graph(); }
  const st::Graph& second_graph() const { return second_.graph(); }

 private:
  using Layer = st::Compiled<st::Array(st::Array, st::Array, st::Array)>;
  Parameters p_;
  Layer first_, second_;
};

// The same without compiling first: at each call jit traces the layer again and finds its plan in the cache.
st::Array with_jit(const Parameters& p, const st::Array& x) {
  const st::Array hidden = st::jit(hidden_layer, x, p.w1, p.b1);
  return st::jit(output_layer, hidden, p.w2, p.b2);
}

void print_time(const char* name, double seconds, std::int64_t pictures) {
  std::cout << "    " << std::left << std::setw(16) << name << std::right << std::fixed
            << std::setprecision(2) << std::setw(10) << seconds * 1e6 << " us per call"
            << std::setprecision(3) << std::setw(10) << seconds * 1e6 / static_cast<double>(pictures)
            << " us per picture\n";
}

// Times the first pictures on the library, compiled and with jit, and in the hand-written loop.
void measure(const Parameters& parameters, const digits::HandWritten& loop, const digits::Images& images,
             std::int64_t pictures, st::Device device) {
  std::vector<float> pixels = images.scaled();
  pixels.resize(pictures * images.pixels_each());
  const st::Array x = st::from_data(pixels, {pictures, images.pixels_each()}, device);
  const Network network(parameters, x);
  st::Array logits;
  std::vector<float> logits_by_hand(pictures * images.classes);

  const auto wait = [&] { logits.at<float>({0, 0}); };  // reading a value waits for the device
  const auto compiled = [&] { logits = network(x); };
  const auto jit = [&] { logits = with_jit(parameters, x); };
  const auto by_hand = [&] { loop(pixels.data(), pictures, logits_by_hand.data()); };
  std::cout << "  " << pictures << (pictures == 1 ? " picture" : " pictures") << " per call\n";
  print_time("compiled", digits::seconds_per_call(compiled, wait), pictures);
  print_time("jit", digits::seconds_per_call(jit, wait), pictures);
  print_time("loop by hand", digits::seconds_per_call(by_hand, [] {}), pictures);
}

void print_step(int number, std::string_view what) {
  std::cout << '[' << number << "/5] " << what << '\n' << std::flush;
}

// "cpu", "cuda", or anything else for the GPU where there is one.
st::Device chosen_device(std::string_view wanted) {
  if (wanted == "cpu") return st::Device::cpu();
  if (wanted == "cuda") return st::Device::cuda(0);
  try {
    static_cast<void>(st::Target::current());
    return st::Device::cuda(0);
  } catch (const st::DeviceError&) {  // no driver, no GPU, or libraries missing: `stiletto info` says which
    return st::Device::cpu();
  }
}

void print_device(st::Device device) {
  std::cout << "  running on ";
  if (device.is_cpu()) {
    std::cout << "the CPU, " << digits::processor_name() << ", " << std::thread::hardware_concurrency()
              << " hardware threads\n\n";
  } else {
    std::cout << device << ", " << digits::gpu_name() << "\n\n";
  }
}

// What the same network answers on the CPU.
digits::Answers answers_on_cpu(const digits::Weights& weights, const digits::Images& images) {
  const st::Device cpu = st::Device::cpu();
  const st::Array x = st::from_data(images.scaled(), {images.count, images.pixels_each()}, cpu);
  return digits::answers_of(Network(upload(weights, cpu), x)(x).to_vector<float>(), images.classes);
}

// Returns the sentence to end with if the run does not count as a success.
std::string verdict(const digits::Answers& answers, const digits::Answers& on_cpu,
                    const digits::Answers& by_hand, double accuracy) {
  if (answers != on_cpu) return "The GPU and the CPU disagree about a picture.";
  if (answers != by_hand) return "The library and the loop written by hand disagree about a picture.";
  if (accuracy < kRequiredAccuracy) return "The accuracy on the held-out pictures is below 97 %.";
  return "";
}

int run(const std::filesystem::path& folder, digits::Style style, std::string_view wanted) {
  const st::Device device = chosen_device(wanted);  // the only line that chooses

  print_step(1, "Reading the pictures and the weights from " + folder.string());
  const digits::Images images = digits::read_images(folder / "digits.bin");
  const digits::Weights weights = digits::read_weights(folder / "weights.bin");
  if (weights.inputs != images.pixels_each() || weights.outputs != images.classes) {
    throw std::runtime_error("weights.bin and digits.bin do not fit together: pixels or classes differ.");
  }
  std::cout << "  " << images.count << " pictures, a network of " << weights.inputs << " -> "
            << weights.hidden << " -> " << weights.outputs << '\n';
  print_device(device);

  print_step(2, "Tracing and compiling one function per layer");
  const Parameters parameters = upload(weights, device);
  const std::vector<float> pixels = images.scaled();
  const st::Array x = st::from_data(pixels, {images.count, images.pixels_each()}, device);
  const Network network(parameters, x);
  std::cout << "\nhidden layer, relu(matmul(x, w) + b):\n"
            << network.first_graph().to_string() << "\noutput layer, matmul(x, w) + b:\n"
            << network.second_graph().to_string() << '\n';

  print_step(3, "Classifying " + std::to_string(images.count) + " pictures in one call of each");
  const digits::Answers answers = digits::answers_of(network(x).to_vector<float>(), images.classes);
  const double accuracy = digits::report(std::cout, images, answers, style);

  print_step(4, device.is_cpu() ? "Checking every answer against a loop written by hand"
                                : "Checking every answer against the CPU and a loop written by hand");
  const digits::HandWritten loop(weights);
  std::vector<float> logits(images.count * images.classes);
  loop(pixels.data(), images.count, logits.data());
  const digits::Answers on_cpu = device.is_cpu() ? answers : answers_on_cpu(weights, images);
  const std::string failure = verdict(answers, on_cpu, digits::answers_of(logits, images.classes), accuracy);
  if (!failure.empty()) {
    std::cerr << "digits: " << failure << '\n';
    return 1;
  }
  std::cout << "  they agree on all " << images.count << "\n\n";

  print_step(5, "Timing both layers: medians of 11 batches, the loop by hand on one thread");
  measure(parameters, loop, images, 1, device);
  measure(parameters, loop, images, images.count, device);
  return 0;
}

constexpr std::string_view kUsage =
    "usage: digits [--ascii] [--device cpu|cuda] [folder]\n"
    "  folder    where digits.bin and weights.bin are (default: data, next to the program)\n"
    "  --device  where to run (default: STILETTO_DEVICE, else the GPU where there is one)\n"
    "  --ascii   draw the pictures with plain characters\n";

}  // namespace

int main(int argc, char** argv) try {
  std::filesystem::path folder = digits::default_folder(argv[0]);
  digits::Style style = digits::terminal_style();
  const char* const variable = std::getenv("STILETTO_DEVICE");
  std::string_view device = variable != nullptr ? variable : "";
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--help") {
      std::cout << kUsage;
      return 0;
    }
    if (argument == "--ascii") {
      style = digits::Style::ascii;
    } else if (argument == "--device") {
      device = ++i < arguments.size() ? arguments[i] : "nothing";
    } else if (argument.starts_with("-")) {
      std::cerr << "digits: there is no option " << argument << ".\n" << kUsage;
      return 1;
    } else {
      folder = argument;
    }
  }
  if (!device.empty() && device != "cpu" && device != "cuda") {
    std::cerr << "digits: the device is cpu or cuda, not " << device << ".\n" << kUsage;
    return 1;
  }
  return run(folder, style, device);
} catch (const std::exception& error) {
  std::cerr << "digits: " << error.what() << '\n';
  return 1;
}
