#include "emulator/transport/mailbox.hpp"

namespace poptorch::emulator {

bool Mailbox::receive(MessageSource& source, const Tag& tag, int64_t bytes,
                      const std::string& sender, const Fabric::Use& use) {
  std::lock_guard lock(mutex_);
  if (!inbox_.empty() && inbox_.take(tag, bytes, sender, use)) return true;
  for (Message message; source.peek(message, sender);) {
    if (message.tag != tag) {
      keep(source, message);
      continue;
    }
    if (message.bytes != bytes) refuse_length(sender, message.bytes, bytes);
    use(message.data);
    source.drop(message);
    return true;
  }
  return false;
}

bool Mailbox::is_next(MessageSource& source, const Tag& tag, const std::string& sender) {
  std::lock_guard lock(mutex_);
  Message message;
  return inbox_.empty() && source.peek(message, sender) && message.tag == tag;
}

void Mailbox::read_all(MessageSource& source, const std::string& sender) {
  std::lock_guard lock(mutex_);
  for (Message message; source.peek(message, sender);) keep(source, message);
}

void Mailbox::keep(MessageSource& source, const Message& message) {
  inbox_.put(message.tag, {message.data, message.data + message.bytes});
  source.drop(message);
}

void Mailbox::forget(uint32_t program, uint32_t run) {
  std::lock_guard lock(mutex_);
  inbox_.forget(program, run);
}

int64_t Mailbox::last_run(uint32_t program) {
  std::lock_guard lock(mutex_);
  return inbox_.last_run(program);
}

}  // namespace poptorch::emulator
