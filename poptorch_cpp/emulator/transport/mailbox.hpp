// Delivers the messages of one instance: first those that came before somebody asked for them, then
// those that still lie where the fabric puts them.
#pragma once

#include <mutex>
#include <string>

#include "emulator/transport/fabric.hpp"

namespace poptorch::emulator {

struct Message {
  Tag tag;
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

// Reads the messages of one sender in order, where the fabric puts them.
class MessageSource {
 public:
  virtual ~MessageSource() = default;
  // Gets the next message, which stays where it is until drop(); false: there is none. Raises
  // UserError, which names `sender`, when the bytes there are not a message.
  virtual bool peek(Message& message, const std::string& sender) = 0;
  virtual void drop(const Message& message) = 0;
};

// Thread-safe.
class Mailbox {
 public:
  // Works as Fabric::receive().
  bool receive(MessageSource& source, const Tag& tag, int64_t bytes, const std::string& sender,
               const Fabric::Use& use);
  // Works as Fabric::is_next().
  bool is_next(MessageSource& source, const Tag& tag, const std::string& sender);
  // Copies all messages of the source, to make room there.
  void read_all(MessageSource& source, const std::string& sender);
  void forget(uint32_t program, uint32_t run);
  int64_t last_run(uint32_t program);

 private:
  void keep(MessageSource& source, const Message& message);

  std::mutex mutex_;
  Inbox inbox_;
};

}  // namespace poptorch::emulator
