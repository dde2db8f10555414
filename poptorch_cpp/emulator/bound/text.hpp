// The text of a code (code.hpp), and words that printer and parser share.
//
//   code {threads=2}
//   region "poptorch::forward"
//   storage 0 : f32[4] at arena(64) {readers=1, writers=1}
//   storage 1 : f32[4] at state("w") {readers=1}
//   value %x : f32[4] at storage(0)
//   value %w : f32[4] at storage(1)
//   value %y : f32[4] at storage(0)
//   ipu 0 @[arena=128] {
//     0: %x = stream_in() @[stream="x"]
//     1: %y = [mul relu](%x, %w) @[at=[1, 2] stored=[3] wires=[0, 1, 2] id=7 region=0]
//     2: stream_out(%y) @[stream="y"]
//     3: end()
//   }
//
// A kernel's bracket has the numbers of its instructions (`at`; `chain` for those of an epilogue)
// and the registers of its chain: `wires` are the operands of all its ops. Attributes that have
// their usual value are not printed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "emulator/bound/code.hpp"

namespace poptorch::emulator {

struct StepRow {
  Step::Kind kind;
  std::string_view word;   // empty: a kernel's or a collective's own
  std::string_view index;  // what `index` names: the key of the bracket, or empty
};

constexpr std::array<StepRow, 18> kStepRows = {{{Step::Kind::kKernel, "", ""},
                                                {Step::Kind::kCopy, "copy", ""},
                                                {Step::Kind::kSend, "send", "channel"},
                                                {Step::Kind::kReceive, "receive", "channel"},
                                                {Step::Kind::kSync, "sync", ""},
                                                {Step::Kind::kStreamIn, "stream_in", "stream"},
                                                {Step::Kind::kStreamOut, "stream_out", "stream"},
                                                {Step::Kind::kLoad, "load", "remote"},
                                                {Step::Kind::kStore, "store", "remote"},
                                                {Step::Kind::kStash, "stash", "stash"},
                                                {Step::Kind::kRestore, "restore", "stash"},
                                                {Step::Kind::kLoopBegin, "loop", "counter"},
                                                {Step::Kind::kLoopEnd, "end_loop", "counter"},
                                                {Step::Kind::kBranch, "if", ""},
                                                {Step::Kind::kJump, "else", ""},
                                                {Step::Kind::kBegin, "", "collective"},
                                                {Step::Kind::kCollective, "", "collective"},
                                                {Step::Kind::kEnd, "end", ""}}};
inline const StepRow& row_of(Step::Kind kind) { return kStepRows[static_cast<size_t>(kind)]; }

// The words are indexed by the values of Layout::Kind, Provider and Way.
constexpr std::array<std::string_view, 4> kLayoutWords = {"plain", "channels_last",
                                                          "panels_of_rows", "panels_of_columns"};
constexpr std::array<std::string_view, 4> kProviderWords = {"fast", "reference", "bookkeeping",
                                                            "foreign"};
constexpr std::array<std::string_view, 3> kWayWords = {"local", "shared", "sent"};

// Prints a code completely. A code that is parsed from the text (bind.hpp) prints the same.
std::string print(const Code& code);
// Returns the line of each step, without its bracket, with the id of the op that it comes from, 0
// if there is none. Fused ops have a line each.
std::vector<std::pair<uint64_t, std::string>> op_lines(const Code& code);
// Reads a code without binding its kernels. UserError for bad text.
Code parse_unbound(std::string_view text, const program::Program& program,
                   const ir::Registry& registry, std::string_view origin = "text");

}  // namespace poptorch::emulator
