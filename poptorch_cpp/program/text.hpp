// Words of the program's text that printer and parser share.
//
//   program {device="ipu2", micro_batches=4}
//   state "fc.weight" : f32[10,784] {ipu=0}
//   constant dense<f32[]: 1.0>
//   stream "x" : f32[16,784] {to_device=true, transfers=4}
//   stash : f32[16,10] {depth=3, ipu=0}
//   tensor %h : f32[16,10] at arena(640)
//   tensor %w : f32[10,784] {ipu=1} at state("fc.weight")
//   ipu 0 @[arena=1280] {
//     loop(4) @[per_micro_batch=true] {
//       %x = stream_in() @[stream="x"]
//       %h = linear(%x, %w, _) @[cycles=120 id=7 stage=0] scope("fc")
//     }
//   }
//
// Attributes that have their usual value are not printed.
#pragma once

#include <array>
#include <string_view>

#include "program/program.hpp"

namespace poptorch::program {

using Kind = Instruction::Kind;

struct KindRow {
  Kind kind;
  std::string_view word;     // empty: the op's name replaces it
  std::string_view channel;  // what `channel` names: key of the bracket, or empty
};

constexpr std::array<KindRow, 13> kKindRows = {{{Kind::kCompute, "", ""},
                                                {Kind::kCopy, "copy", ""},
                                                {Kind::kSend, "send", "channel"},
                                                {Kind::kReceive, "receive", "channel"},
                                                {Kind::kSync, "sync", ""},
                                                {Kind::kStreamIn, "stream_in", "stream"},
                                                {Kind::kStreamOut, "stream_out", "stream"},
                                                {Kind::kOffChipLoad, "load", "remote"},
                                                {Kind::kOffChipStore, "store", "remote"},
                                                {Kind::kStash, "stash", "stash"},
                                                {Kind::kRestore, "restore", "stash"},
                                                {Kind::kLoop, "loop", ""},
                                                {Kind::kIf, "if", ""}}};
inline const KindRow& row_of(Kind kind) { return kKindRows[static_cast<size_t>(kind)]; }

// The words are indexed by the values of Base, Keep and Pass.
constexpr std::array<std::string_view, 5> kBaseWords = {"arena", "state", "constant", "stream",
                                                        "stash"};
constexpr std::array<std::string_view, 4> kKeepWords = {"all", "every_n", "final", "sum"};
constexpr std::array<std::string_view, 4> kPassWords = {"forward", "backward", "update",
                                                        "transfer"};

}  // namespace poptorch::program
