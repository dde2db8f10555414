// Moves bytes between this instance and the others of a group, in messages or, with zero copies,
// straight from one instance's memory to another's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "emulator/bound/instance_group.hpp"
#include "emulator/transport/tag.hpp"
#include "support/table.hpp"

namespace poptorch::emulator {

class Fabric;  // transport/fabric.hpp
class Peers;   // peers.hpp

// Holds the bytes of one round of a collective that wait to be sent to or received from each place
// of the group. Those of one place move in the order in which they were added. Not thread-safe.
class Transfers {
 public:
  // Sends messages or, with `zero_copy`, uses Fabric::offer() and request(). `group` and `peers`
  // must outlive this object.
  Transfers(const InstanceGroup& group, Peers& peers, bool zero_copy);

  // Begins a round, in which sent messages have the one tag and received ones the other.
  void begin(const Tag& send_tag, const Tag& receive_tag);
  // Add bytes, which are cut into messages if they are too long for one.
  void add_send(int place, const std::byte* data, int64_t bytes);
  void add_receive(int place, std::byte* into, int64_t bytes);
  // Moves what can be moved now. Returns whether there was anything.
  bool advance();
  // Sends one message, ahead of those added. Returns whether there was room.
  bool send(int place, const Tag& tag, const std::byte* data, int64_t bytes);

  // Returns whether everything has moved and all zero-copy transfers have ended.
  bool are_finished() const { return first_waiting() < 0 && first_moving() < 0; }
  // Returns a place from which a message is to be received or, if there is none, to which one is to
  // be sent; -1: none.
  int first_waiting() const;
  // Returns a place with zero-copy transfers that have not ended; -1: none.
  int first_moving() const;
  bool has_unsent(int place) const { return !of(place).sends.is_done(); }
  // Counts the pieces sent to a place whose memory may be written again. Requires that nothing is
  // received from the place in this round, and that send() is not called.
  size_t released(int place) const { return of(place).sends.next - of(place).moving.size(); }

 private:
  template <typename Byte>
  struct Queue {
    struct Piece {
      Byte* data = nullptr;
      int64_t bytes = 0;
    };
    std::vector<Piece> pieces = {};
    size_t next = 0;  // the first that has not moved

    void clear() { pieces.clear(), next = 0; }
    void add(Byte* data, int64_t bytes, int64_t most);
    bool is_done() const { return next == pieces.size(); }
    // Calls `move` on pieces until it returns false. Returns whether any has moved.
    template <typename Move>
    bool advance(Move move);
  };
  struct Place {
    Queue<const std::byte> sends = {};
    Queue<std::byte> receives = {};
    std::deque<int64_t> moving = {};  // zero-copy transfers not known to have ended
  };

  const Place& of(int place) const { return places_[place]; }
  Place& of(int place) { return places_[place]; }
  Fabric& fabric() const;
  int64_t longest(int64_t bytes) const;
  bool receive(int place, std::byte* into, int64_t bytes);
  bool note(int place, int64_t transfer);
  bool settle(int place);

  const InstanceGroup& group_;
  Peers& peers_;
  const bool zero_copy_;
  Tag send_tag_, receive_tag_;
  support::Table<int, Place> places_;
};

}  // namespace poptorch::emulator
