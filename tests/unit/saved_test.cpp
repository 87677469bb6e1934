// SPDX-License-Identifier: Apache-2.0
// Compiled functions saved to files and loaded again: every kind of signature, and what is refused.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/plan_file.hpp"
#include "stiletto/stiletto.hpp"
#include "support/errors.hpp"

namespace {

using stiletto::ArgumentError;
using stiletto::Array;
using stiletto::compile;
using stiletto::Compiled;
using stiletto::DType;
using stiletto::load;
using support::throws;
using Floats = std::vector<float>;

class Saved : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static std::string read(const std::filesystem::path& path) {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
  }
  static void write(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("stiletto-saved-" + std::to_string(getpid()));
  const std::filesystem::path path = folder / "f.plan";
  const Array x = stiletto::from_data(Floats{1, 2, 3, 4, 5, 6}, {2, 3});
  const Array w = stiletto::from_data(Floats{1, 0, 2, 0, 1, 1}, {3, 2});
};

struct Layer {
  Array w, b;
  int units = 7;
  auto fields() { return std::tie(w, b); }
};

TEST_F(Saved, computes_what_was_compiled) {
  auto f = [](const Array& a, const Array& b, const Array& s) {
    return stiletto::gelu(stiletto::matmul(a, b) * s) + stiletto::sum(a);
  };
  const auto compiled = compile(f, x, w, 0.5);
  compiled.save(path);
  const auto loaded = load<Array(Array, Array, Array)>(path);
  EXPECT_EQ(loaded(x, w, 2.0).to_vector<float>(), compiled(x, w, 2.0).to_vector<float>());
  EXPECT_EQ(loaded.graph().to_string(), compiled.graph().to_string());
  EXPECT_EQ(loaded.graph().to_json(), compiled.graph().to_json());
  EXPECT_EQ(loaded.workspace(), compiled.workspace());
  const auto bound = loaded.bindings(x, w, 2.0);
  loaded.graph().execute(bound.bindings);
  EXPECT_EQ(bound.outputs.to_vector<float>(), compiled(x, w, 2.0).to_vector<float>());
}

TEST_F(Saved, a_loaded_function_is_saved_again) {
  compile([](const Array& a) { return a + 1; }, x).save(path);
  const std::string first = read(path);
  load<Array(Array)>(path).save(folder / "again.plan");
  EXPECT_EQ(read(folder / "again.plan"), first);
}

TEST_F(Saved, every_kind_of_signature) {
  using Result = std::tuple<Array, std::vector<Array>, Layer, std::array<Array, 2>>;
  auto f = [](const std::vector<Array>& list, const std::pair<Array, Array>& p, const Layer& layer) {
    const Array sum = list[0] + list[1] * p.second;
    return Result{sum, {sum * 2, p.first, sum - 1}, {layer.w + 1, layer.b}, {sum * sum, sum / 2}};
  };
  const std::vector<Array> list{x, x};
  const std::pair<Array, float> p{x, 3.0F};
  const Layer layer{x, w};
  const auto compiled = compile(f, list, p, layer);
  compiled.save(path);
  const auto loaded = load<Result(std::vector<Array>, std::pair<Array, Array>, Layer)>(path);
  const std::pair<Array, Array> q{x, 5.0F};
  const Result a = compiled(list, q, layer), b = loaded(list, q, layer);
  EXPECT_EQ(std::get<0>(a).to_vector<float>(), std::get<0>(b).to_vector<float>());
  ASSERT_EQ(std::get<1>(b).size(), 3U);
  EXPECT_EQ(std::get<1>(a)[2].to_vector<float>(), std::get<1>(b)[2].to_vector<float>());
  EXPECT_EQ(std::get<1>(b)[1].raw_data(), x.raw_data()) << "a returned argument is that same memory";
  EXPECT_EQ(std::get<2>(a).w.to_vector<float>(), std::get<2>(b).w.to_vector<float>());
  EXPECT_EQ(std::get<2>(b).units, 7) << "what the default constructor makes";
  EXPECT_EQ(std::get<3>(a)[1].to_vector<float>(), std::get<3>(b)[1].to_vector<float>());
}

TEST_F(Saved, stores_and_nothing_returned) {
  const Array y = stiletto::zeros({2, 3});
  compile([](const Array& to, const Array& a) { stiletto::assign(to, a * 2); }, y, x).save(path);
  load<void(Array, Array)>(path)(y, x);
  EXPECT_EQ(y.to_vector<float>(), (Floats{2, 4, 6, 8, 10, 12}));
}

TEST_F(Saved, arguments_are_checked_as_before) {
  const auto compiled = compile([](const Array& a) { return a + 1; }, x);
  compiled.save(path);
  const auto loaded = load<Array(Array)>(path);
  auto text = [](const auto& f, const Array& argument) {
    try {
      f(argument);
    } catch (const stiletto::Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(text(loaded, w), text(compiled, w));
  EXPECT_NE(text(loaded, w).find("arg0"), std::string::npos);
}

TEST_F(Saved, an_allocator_is_given_when_loading) {
  compile([](const Array& a) { return a + 1; }, x).save(path);
  int calls = 0;
  const auto loaded =
      load<Array(Array)>(path, [&](stiletto::Device device, const stiletto::Shape& shape, DType dtype) {
        ++calls;
        return stiletto::empty(shape, dtype, device);
      });
  EXPECT_EQ(loaded(x).to_vector<float>(), (Floats{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(calls, 1);
}

TEST_F(Saved, captured_arrays_are_refused) {
  const auto compiled = compile([&](const Array& a) { return stiletto::matmul(a, w); }, x);
  EXPECT_TRUE(throws<ArgumentError>(
      [&] { compiled.save(path); },
      {"save: the function captures 1 array (float32(3, 2)), whose contents a plan does not hold; pass them "
       "as arguments"}));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(throws<ArgumentError>([&] { Compiled<Array(Array)>().save(path); }, {"empty handle"}));
}

TEST_F(Saved, the_signature_is_the_one_that_was_compiled) {
  compile([](const Array& a) { return a + 1; }, x).save(path);
  EXPECT_TRUE(throws<ArgumentError>(
      [&] { load<Array(Array, Array)>(path); },
      {"f.plan is a function with 1 argument, and the signature has 2; load it as what it was compiled as"}));
  EXPECT_TRUE(throws<ArgumentError>([&] { load<std::pair<Array, Array>(Array)>(path); },
                                    {"is a function with 1 result, and the signature has 2"}));
  EXPECT_TRUE(throws<ArgumentError>([&] { load<void(Array)>(path); }, {"with 1 result", "has 0"}));
}

TEST_F(Saved, files_that_are_no_plan) {
  auto refused = [&](const std::string& bytes, const std::string& fact) {
    write(path, bytes);
    return throws<ArgumentError>([&] { load<Array(Array)>(path); }, {"load: ", "f.plan", fact});
  };
  EXPECT_TRUE(throws<ArgumentError>([&] { load<Array(Array)>(folder / "none.plan"); },
                                    {"load: ", "none.plan cannot be read: No such file or directory"}));
  EXPECT_TRUE(throws<ArgumentError>([&] { load<Array(Array)>(folder); }, {"is a folder, not a saved plan"}));
  EXPECT_TRUE(refused("", "is no saved plan"));
  EXPECT_TRUE(
      refused("\x7f"
              "ELF",
              "is no saved plan"));
  EXPECT_TRUE(refused("Stiletto plan\n", "is no saved plan"));
  EXPECT_TRUE(refused("Stiletto plan\nversion 0.0.1, format 1\n\n",
                      "is of another Stiletto (version 0.0.1, format 1; this is version "));
}

// A file cut anywhere, or with any byte changed, is refused; nothing else happens.
TEST_F(Saved, torn_and_damaged_files) {
  compile([](const Array& a, const Array& b) { return stiletto::matmul(a, b) + 1; }, x, w).save(path);
  const std::string whole = read(path);
  auto outcome = [&](const std::string& bytes) {
    write(path, bytes);
    try {
      load<Array(Array, Array)>(path);
    } catch (const ArgumentError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  ASSERT_EQ(outcome(whole), "");
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 16)
    EXPECT_NE(outcome(whole.substr(0, size)), "") << size << " of " << whole.size() << " bytes";
  EXPECT_NE(outcome(whole + "x").find("is damaged; save it again"), std::string::npos);
  const std::size_t body = whole.find("\n\n") + 2;
  for (std::size_t at = body; at < whole.size(); at += 7) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_NE(outcome(damaged), "") << "byte " << at;
  }
}

TEST_F(Saved, what_cannot_be_written_leaves_nothing) {
  const auto compiled = compile([](const Array& a) { return a + 1; }, x);
  EXPECT_TRUE(
      throws<ArgumentError>([&] { compiled.save(folder / "missing" / "f.plan"); },
                            {"save: ", "missing/f.plan", "cannot be written: No such file or directory"}));
  std::filesystem::create_directories(path);  // where the file should be
  EXPECT_TRUE(throws<ArgumentError>([&] { compiled.save(path); }, {"save: ", "f.plan cannot be written: "}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1) << "the folder f.plan only";
}

TEST_F(Saved, a_link_stays_one) {
  compile([](const Array& a) { return a + 1; }, x).save(path);
  const std::filesystem::path link = folder / "link";
  std::filesystem::create_symlink(path, link);
  compile([](const Array& a) { return a + 2; }, x).save(link);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(load<Array(Array)>(path)(x).to_vector<float>()[0], 3);
}

TEST_F(Saved, a_link_that_leads_nowhere_yet_stays_one) {
  const std::filesystem::path link = folder / "link";
  std::filesystem::create_symlink("f.plan", link);
  compile([](const Array& a) { return a + 2; }, x).save(link);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(load<Array(Array)>(path)(x).to_vector<float>()[0], 3);
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_TRUE(
      throws<ArgumentError>([&] { compile([](const Array& a) { return a + 1; }, x).save(folder / "loop"); },
                            {"save: ", "loop cannot be written: Too many levels of symbolic links"}));
}

TEST_F(Saved, a_file_that_is_there_keeps_its_mode) {
  const auto compiled = compile([](const Array& a) { return a + 1; }, x);
  compiled.save(path);
  std::filesystem::permissions(path,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  compiled.save(path);
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(Saved, unfinished_files_go_after_a_day) {
  const auto made = [&](const char* name, int hours) {
    const std::filesystem::path file = folder / name;
    write(file, "part");
    std::filesystem::last_write_time(
        file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
    return file;
  };
  const auto old = made(".stiletto-1-2.unfinished", 25), recent = made(".stiletto-3-4.unfinished", 23),
             other = made("f.unfinished", 25), plan = made("g.plan", 25);
  stiletto::detail::remove_unfinished(folder);
  EXPECT_FALSE(std::filesystem::exists(old));
  for (const auto& file : {recent, other, plan}) EXPECT_TRUE(std::filesystem::exists(file)) << file;
  EXPECT_NO_THROW(stiletto::detail::remove_unfinished(folder / "missing"));
}

TEST_F(Saved, pipes_are_left_alone) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto compiled = compile([](const Array& a) { return a + 1; }, x);
  EXPECT_TRUE(
      throws<ArgumentError>([&] { compiled.save(path); },
                            {"save: ", "f.plan cannot be written: it is there and is no regular file"}));
  EXPECT_TRUE(throws<ArgumentError>([&] { load<Array(Array)>(path); }, {"f.plan is no regular file"}));
}

TEST_F(Saved, a_file_that_says_it_is_longer_than_it_is) {
  write(path, "Stiletto plan\nversion 0.1.0, format 1\n\n" + std::string(16, '\x7f'));
  EXPECT_TRUE(
      throws<ArgumentError>([&] { load<Array(Array)>(path); }, {"f.plan ends too early; save it again"}));
}

TEST_F(Saved, the_old_file_stays_until_the_new_one_is_whole) {
  compile([](const Array& a) { return a + 1; }, x).save(path);
  const std::string first = read(path);
  compile([](const Array& a) { return a + 2; }, x).save(path);
  EXPECT_NE(read(path), first);
  EXPECT_EQ(load<Array(Array)>(path)(x).to_vector<float>()[0], 3);
}

TEST_F(Saved, nothing_to_compute) {
  compile([](const Array& a) { return a; }, x).save(path);
  EXPECT_EQ(load<Array(Array)>(path)(x).raw_data(), x.raw_data());
}

}  // namespace
