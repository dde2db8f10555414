// Defines the tags of messages between the instances of a program.
#pragma once

#include <compare>
#include <cstdint>

namespace poptorch::emulator {

// Identifies the subject of a message, so that instances need no common order.
struct Tag {
  uint32_t program = 0;     // Fabric::next_program()
  uint32_t run = 0;         // of the program, from 0
  uint32_t collective = 0;  // of the program; or a constant from below
  uint32_t group = 0;
  uint32_t round = 0;        // of the collective, in this run
  uint32_t on_one_host = 0;  // 1: all instances that use this tag are on one host
  auto operator<=>(const Tag&) const = default;

  static constexpr uint32_t kHello = ~uint32_t{0};   // values on which instances must agree
  static constexpr uint32_t kGiveUp = kHello - 1;    // the sender's run has failed
  static constexpr uint32_t kExchange = kHello - 2;  // parts of state
  static constexpr uint32_t kNote = kHello - 3;      // a message that nobody waits for
};

}  // namespace poptorch::emulator
