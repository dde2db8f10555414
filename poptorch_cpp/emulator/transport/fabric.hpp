// Carries bytes between the instances of a program. A fabric moves messages and knows nothing of
// tensors: a message has a tag, and messages of one tag from one instance arrive in order. Sending
// and receiving do not block: they report when the caller must ask again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "emulator/host/event_count.hpp"
#include "emulator/transport/tag.hpp"

namespace poptorch::emulator {

// Thread-safe. Errors (support::UserError) name the instance.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual int instances() const = 0;
  virtual int instance() const = 0;  // this one
  // Returns the most bytes that one message may have. The same in all instances.
  virtual int64_t most_bytes() const = 0;
  virtual int64_t most_bytes_on_host() const { return most_bytes(); }
  int64_t longest_message(bool on_one_host) const {
    return on_one_host ? most_bytes_on_host() : most_bytes();
  }

  // Returns whether the message was accepted; false: the fabric is full now. An accepted message
  // arrives, unless the receiver ends.
  virtual bool send(int to, const Tag& tag, const std::byte* data, int64_t bytes) = 0;
  // Returns whether the next message of that tag came. If so, `use` reads it in place, and it is
  // dropped. Raises UserError, without calling `use`, when it has another length.
  using Use = std::function<void(const std::byte*)>;
  virtual bool receive(int from, const Tag& tag, int64_t bytes, const Use& use) = 0;
  bool receive(int from, const Tag& tag, std::byte* into, int64_t bytes);
  // Whether the next message is still in the fabric's memory and has that tag: receiving another
  // one first copies it. An implementation may always return false.
  virtual bool is_next(int /*from*/, const Tag& /*tag*/) { return false; }

  // Whether this process and `other` can map each other's files: shared_pages.hpp. The same in
  // both.
  virtual bool is_on_this_host(int /*other*/) const { return false; }
  // Instances on one host read operands of so many bytes and more in place; shorter ones are sent.
  virtual int64_t least_shared() const { return int64_t{1} << 16; }

  // offer() may send a message by zero-copy transfer, straight from the sender's memory to the
  // receiver's; the other instance must request() it. Until is_over(), nobody may write the offered
  // memory or read the requested one. Both return the argument of is_over(); kNoRoom: ask again, as
  // for send() and receive().
  static constexpr int64_t kNoRoom = -1;
  virtual int64_t offer(int to, const Tag& tag, const std::byte* data, int64_t bytes) {
    return send(to, tag, data, bytes) ? 0 : kNoRoom;
  }
  virtual int64_t request(int from, const Tag& tag, std::byte* into, int64_t bytes) {
    return receive(from, tag, into, bytes) ? 0 : kNoRoom;
  }
  virtual bool is_over(int /*other*/, int64_t /*transfer*/) { return true; }
  // Bulk transfers may be longer than most_bytes(). Messages shorter than this are sent.
  virtual int64_t least_bulk() const { return std::numeric_limits<int64_t>::max(); }
  // Withdraws the transfers of a program whose run failed: nobody reads or writes its memory any
  // more. Ends the link to an instance that still does so at the time `until` (clock.hpp).
  virtual void withdraw(uint32_t /*program*/, double /*until*/) {}

  // Copies the messages that have come and keeps them for later, so that senders find room. nap()
  // calls it before it sleeps, as all could wait for each other otherwise; not sooner, because of
  // the copy.
  virtual void read_all() {}

  // Returns how it is known that `other` sends nothing more, such as "it was killed"; empty: it
  // may. What it sent before can still be received. Cheap enough to call in every round of a wait.
  virtual std::string end_of(int other) = 0;
  // Whether the process of `other` is known to be stopped; it may be continued later.
  virtual bool is_stopped(int /*other*/) { return false; }
  // Returns a text such as "instance 1 on node7 (process 4711)".
  virtual std::string name(int other) const = 0;

  // Drops messages about earlier runs of the program.
  virtual void forget(uint32_t program, uint32_t run) = 0;
  // Returns the highest run of `program` among the messages of `other` that came but were not asked
  // for; -1: none came. An instance that has begun a run sends nothing more about earlier ones.
  virtual int64_t last_run(int other, uint32_t program) = 0;

  // Leaves the other instances; they have some seconds to receive what was sent. Nothing can be
  // sent or received then.
  virtual void leave() {}

  // Returns the event count that is notified when a thread here may continue: when messages come,
  // and when others make room.
  virtual EventCount& events() { return events_; }
  uint32_t signal() { return events().count(); }
  // Pauses a caller that has asked `round` times without result: spins, then yields, then sleeps.
  // It sleeps for up to a millisecond, or until signal() differs from `seen`, its value before the
  // caller asked.
  void nap(int64_t round, uint32_t seen);
  // Whether the next message takes too long for spinning to be worth it.
  virtual bool is_slow() const { return false; }

  // Numbers programs as they are run for the first time. The numbers are the same in all instances.
  uint32_t next_program() { return programs_.fetch_add(1); }

 private:
  EventCount events_;
  std::atomic<uint32_t> programs_{0};
};

// Keeps messages of one sender that came before somebody asked for them. Not thread-safe.
class Inbox {
 public:
  using Message = std::vector<std::byte>;
  void put(const Tag& tag, Message message) { messages_[tag].push_back(std::move(message)); }
  // Works as Fabric::receive(); `sender` is for the error's text.
  bool take(const Tag& tag, int64_t bytes, const std::string& sender, const Fabric::Use& use);
  void forget(uint32_t program, uint32_t run);
  int64_t last_run(uint32_t program) const;
  bool empty() const { return messages_.empty(); }

 private:
  std::map<Tag, std::deque<Message>> messages_;
};

// Raises UserError: what `sender` sent is not as long as this instance expects.
[[noreturn]] void refuse_length(const std::string& sender, int64_t bytes, int64_t expected);

}  // namespace poptorch::emulator
