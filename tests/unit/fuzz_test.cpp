// Runs the targets of the fuzzers without clang: on the corpora of tests/fuzz/corpus, which hold a
// text for every fault that a fuzzer found, on every golden text, and on mutants of these.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "../fuzz/targets.hpp"
#include "golden_cases.hpp"
#include "sample.hpp"

namespace poptorch::fuzz {
namespace {

namespace fs = std::filesystem;

struct Text {
  std::string name, text;
};

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<Text> corpus(const std::string& target) {
  std::vector<Text> texts;
  for (const auto& entry :
       fs::directory_iterator(fs::path(POPTORCH_TESTS_DIR) / "fuzz/corpus" / target)) {
    texts.push_back({entry.path().filename().string(), content(entry.path())});
  }
  std::sort(texts.begin(), texts.end(),
            [](const Text& a, const Text& b) { return a.name < b.name; });
  return texts;
}

// Returns the inputs and expectations of the golden cases, and the files that consist of one text.
std::vector<Text> golden_texts(bool programs) {
  std::vector<Text> texts;
  auto add = [&](const std::string& name, const std::string& text) {
    const bool is_program = trimmed(text).starts_with("program");
    if (!text.empty() && is_program == programs) texts.push_back({name, text});
  };
  for (const Case& one : all_cases()) {
    add(one.title, one.input);
    add(one.title, one.expected);
  }
  const fs::path folder = fs::path(POPTORCH_TESTS_DIR) / "ir";
  for (const char* name : {"programs", "verifier/every_op.ir"}) {
    if (!fs::is_directory(folder / name)) {
      add(name, content(folder / name));
      continue;
    }
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder / name)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) add(file.filename().string(), content(file));
  }
  return texts;
}

using Target = Reached (*)(std::string_view);
using Mutator = std::string (*)(std::string_view, uint64_t);

// Returns the number of texts for each stage that they reached. A foreign exception or a violated
// property fails the test.
std::map<Reached, int> feed(Target target, const std::vector<Text>& texts, uint64_t first_mutant,
                            uint64_t mutants, Mutator mutate = &mutated) {
  std::map<Reached, int> reached;
  Sample sample;
  for (const Text& one : texts) {
    for (uint64_t i = 0; i < mutants; ++i) {
      const uint64_t seed = first_mutant + i;
      if (seed && !sample.takes()) continue;
      const std::string text = seed == 0 ? one.text : mutate(one.text, seed);
      try {
        ++reached[target(text)];
      } catch (const std::exception& error) {
        ADD_FAILURE() << one.name << ", mutant " << seed << ": " << error.what() << "\n" << text;
      }
    }
  }
  return reached;
}

void print(const char* what, const std::map<Reached, int>& reached) {
  static constexpr const char* kWords[] = {"refused", "parsed", "verified", "compiled", "ran"};
  std::cout << what << ":";
  for (const auto& [how_far, count] : reached) {
    std::cout << " " << count << " " << kWords[static_cast<size_t>(how_far)];
  }
  std::cout << "\n";
}

// Returns the fraction of the texts whose last stage is `how_far`.
double share_of(const std::map<Reached, int>& reached, Reached how_far) {
  int all = 0;
  for (const auto& [_, count] : reached) all += count;
  return reached.contains(how_far) ? static_cast<double>(reached.at(how_far)) / all : 0;
}

// Returns the number of mutants per text, which POPTORCH_MUTANTS can raise.
uint64_t mutants_a_text() {
  const char* given = std::getenv("POPTORCH_MUTANTS");
  return given ? std::strtoull(given, nullptr, 10) : 12;
}

TEST(Fuzz, CorporaKeepTheLaws) {
  for (const auto& [name, target] : {std::pair("ir", &fuzz_ir), std::pair("program", &fuzz_program),
                                     std::pair("executable", &fuzz_executable)}) {
    const std::vector<Text> texts = corpus(name);
    EXPECT_FALSE(texts.empty());
    feed(target, texts, 0, 1);
  }
}

TEST(Fuzz, GoldenModulesKeepTheLawsAndMostRun) {
  const auto reached = feed(&fuzz_ir, golden_texts(false), 0, 1);
  print("golden modules", reached);
  EXPECT_GT(reached.at(Reached::kRun), 100);
}

TEST(Fuzz, GoldenProgramsKeepTheLawsAndVerify) {
  const auto reached = feed(&fuzz_program, golden_texts(true), 0, 1);
  print("golden programs", reached);
  EXPECT_EQ(reached.size(), 1u);
  EXPECT_GT(reached.at(Reached::kVerified), 30);
}

TEST(Fuzz, MutantsOfGoldenModulesAreRefusedOrRun) {
  const auto reached = feed(&fuzz_ir, golden_texts(false), 1, mutants_a_text());
  print("mutants of golden modules", reached);
  EXPECT_GT(share_of(reached, Reached::kNothing), 0.02);
  EXPECT_GT(share_of(reached, Reached::kRun), 0.02);
}

TEST(Fuzz, MutantsOfGoldenProgramsAreRefusedOrAccepted) {
  const auto reached = feed(&fuzz_program, golden_texts(true), 1, 10 * mutants_a_text());
  print("mutants of golden programs", reached);
  EXPECT_GT(share_of(reached, Reached::kNothing), 0.02);
  EXPECT_GT(share_of(reached, Reached::kParsed), 0.004);
}

// Mutates the files of the corpus, which holds only whole executables.
TEST(Fuzz, MutantsOfExecutablesAreRefusedOrAccepted) {
  const auto reached =
      feed(&fuzz_executable, corpus("executable"), 1, 50 * mutants_a_text(), &mutated_executable);
  print("mutants of executables", reached);
  EXPECT_GT(share_of(reached, Reached::kNothing), 0.02);
  EXPECT_GT(share_of(reached, Reached::kVerified), 0.02);
}

}  // namespace
}  // namespace poptorch::fuzz
