// What carries bytes between the instances of a program. A fabric moves messages and knows nothing
// of tensors: a message has a tag, and those of one tag from one instance arrive in their order.
// Nothing here waits: who sends or receives is told that it must ask again.
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

#include "emulator/host/bell.hpp"
#include "emulator/transport/tag.hpp"

namespace poptorch::emulator {

// Thread-safe. Errors (support::UserError) name the instance.
class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual int instances() const = 0;
  virtual int instance() const = 0;  // this one
  // That one message may have at most. The same in all instances.
  virtual int64_t most_bytes() const = 0;
  virtual int64_t most_bytes_among_near() const { return most_bytes(); }

  // Whether the message was taken; false: there is no room now. What was taken arrives, unless the
  // receiver ends.
  virtual bool send(int to, const Tag& tag, const std::byte* data, int64_t bytes) = 0;
  // Whether the next message of that tag has come: it is gone once `use` has seen it, where it
  // lies. UserError when it has another length; it is not used then.
  using Use = std::function<void(const std::byte*)>;
  virtual bool receive(int from, const Tag& tag, int64_t bytes, const Use& use) = 0;
  bool receive(int from, const Tag& tag, std::byte* into, int64_t bytes);
  // Whether the next message lies where the fabric put it, and is of that tag: whoever asks for
  // another first makes it be copied. May be false.
  virtual bool is_next(int /*from*/, const Tag& /*tag*/) { return false; }

  // Whether `other` can map files of this process, and this one its: lending.hpp. The same in both.
  virtual bool is_near(int /*other*/) const { return false; }
  // Operands of so many bytes and more are lent to those who are near, shorter ones are sent.
  virtual int64_t least_lent() const { return int64_t{1} << 16; }

  // A message that may be lent: it goes from the memory where it is to where it is wanted, and the
  // other one must fetch() it. Nobody may write there, nor read what is fetched, until it is over.
  // What is returned is for is_over(); kNoRoom: ask again, as of send() and receive().
  static constexpr int64_t kNoRoom = -1;
  virtual int64_t lend(int to, const Tag& tag, const std::byte* data, int64_t bytes) {
    return send(to, tag, data, bytes) ? 0 : kNoRoom;
  }
  virtual int64_t fetch(int from, const Tag& tag, std::byte* into, int64_t bytes) {
    return receive(from, tag, into, bytes) ? 0 : kNoRoom;
  }
  virtual bool is_over(int /*other*/, int64_t /*loan*/) { return true; }
  // Lent ones may be longer than most_bytes(); shorter ones than this are sent.
  virtual int64_t least_loan() const { return std::numeric_limits<int64_t>::max(); }
  // Of a program whose run fails: nobody reads or writes its memory any more. Where that takes
  // longer than to a time by clock.hpp, whoever does is left.
  virtual void take_back(uint32_t /*program*/, double /*until*/) {}

  // Keeps what has come until somebody asks for it, so that others find room. nap() does so before
  // it sleeps: else all could wait for each other. Not sooner: it takes a copy.
  virtual void read_all() {}

  // How it is known that `other` sends nothing more, such as "it was killed"; empty: it may.
  // What it sent before can still be received. Cheap enough for whoever waits to ask all the time.
  virtual std::string end_of(int other) = 0;
  // Whether its process is known to be stopped: it may be continued.
  virtual bool is_stopped(int /*other*/) { return false; }
  // "instance 1 on node7 (process 4711)".
  virtual std::string name(int other) const = 0;

  // Messages about earlier runs of the program are dropped.
  virtual void forget(uint32_t program, uint32_t run) = 0;
  // The highest run of `program` that a message of `other` was about that came but was not asked
  // for; -1: none came. Who has begun a run sends nothing more about those before.
  virtual int64_t last_run(int other, uint32_t program) = 0;

  // Leaves the others, who may still take what was sent, for some seconds. Nothing can be sent or
  // received then.
  virtual void leave() {}

  // Rings for what may let somebody here go on: messages that come, and room that others make.
  virtual Bell& bell() { return bell_; }
  uint32_t signal() { return bell().count(); }
  // For whoever has asked `round` times in vain: spins, then yields, then sleeps, for up to a
  // millisecond, or until signal() is no longer what the caller saw before it asked.
  void nap(int64_t round, uint32_t seen);
  // Whether what comes next takes longer than it is worth to spin for.
  virtual bool is_slow() const { return false; }

  // Numbers programs as they are run for the first time: the same in all instances.
  uint32_t next_program() { return programs_.fetch_add(1); }

 private:
  Bell bell_;
  std::atomic<uint32_t> programs_{0};
};

// Messages of one sender that have come before somebody asked for them. Not thread-safe.
class Inbox {
 public:
  using Message = std::vector<std::byte>;
  void put(const Tag& tag, Message message) { messages_[tag].push_back(std::move(message)); }
  // As Fabric::receive(); `sender` is for the error's text.
  bool take(const Tag& tag, int64_t bytes, const std::string& sender, const Fabric::Use& use);
  void forget(uint32_t program, uint32_t run);
  int64_t last_run(uint32_t program) const;
  bool empty() const { return messages_.empty(); }

 private:
  std::map<Tag, std::deque<Message>> messages_;
};

// UserError: what `sender` sent is not as long as this instance expects.
[[noreturn]] void refuse_length(const std::string& sender, int64_t bytes, int64_t expected);

}  // namespace poptorch::emulator
