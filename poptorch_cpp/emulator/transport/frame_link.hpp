// Batches messages over a wire into frames: messages sent while frames are under way go together in
// the next. Long messages are separate zero-copy transfers. Three threads wait for the wire, so
// that callers need not.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "emulator/transport/bulk_transfers.hpp"
#include "emulator/transport/mailbox.hpp"
#include "emulator/transport/wire.hpp"

namespace poptorch::emulator {

class FrameLink final : public MessageSource {
 public:
  // Notifies `events` when messages come and when there is room again.
  FrameLink(std::unique_ptr<Wire> wire, EventCount& events);
  ~FrameLink() override { close(); }

  static constexpr int64_t kFrame = int64_t{1} << 22;  // bytes; takes memory as it is used
  static constexpr int64_t kHeader = 64;               // before a frame and before a message
  static constexpr int64_t kMost = kFrame - 2 * kHeader;
  static constexpr int64_t kMostNotes = 64;  // in a frame

  // These work as those of Fabric.
  bool send(const Tag& tag, const std::byte* data, int64_t bytes);
  int64_t offer(const Tag& tag, const std::byte* data, int64_t bytes);
  int64_t request(const Tag& tag, std::byte* into, int64_t bytes);
  bool is_over(int64_t transfer) const { return transfers_.is_over(transfer); }
  bool has_transfers() const { return transfers_.has_any(); }
  // Works as BulkTransfers::withdraw(). With `is_last`, the link ends if transfers are under way.
  bool withdraw(uint32_t program, bool is_last);
  std::string end() const;
  // peek() and drop() are for one thread at a time.
  bool peek(Message& message, const std::string& sender) override;
  void drop(const Message& message) override;

  // Ends sending. The other instance answers once it has everything, if it can.
  void announce_end();
  bool is_end_acknowledged() const { return is_answered_; }
  // Ends the threads and the wire.
  void close();

 private:
  static constexpr int64_t kRoom = kFrame + kMostNotes * int64_t{sizeof(BulkTransfers::Note)};
  struct Frame {
    std::unique_ptr<std::byte[]> bytes{new std::byte[kRoom]};
    int64_t used = kHeader;
    std::unique_ptr<Wire::Transfer> transfer;
  };

  bool has_room(int64_t bytes);
  template <typename Open>
  int64_t open_transfer(Open open);
  void say_notes();
  void put(const Tag& tag, const std::byte* data, int64_t bytes);
  Frame& filled() { return out_[started_ % kFrames]; }
  bool has_free_frame() const { return started_ - through_ < kFrames; }
  void start_frame();
  bool has_more();
  void wait_for_sends();
  void wait_for_frames();
  bool take_head(const Frame& frame, uint32_t number);
  void post(Frame& frame);
  Frame& oldest(const std::deque<Frame*>& frames);
  void give_back();
  void end_with(const std::string& how);

  std::unique_ptr<Wire> wire_;
  EventCount& events_;
  std::atomic<bool> is_closing_{false}, has_ended_{false}, is_answered_{false};
  mutable std::mutex ending_;
  std::string end_;

  std::mutex sending_;
  std::condition_variable frame_started_;
  static constexpr uint32_t kFrames = 3;
  std::array<Frame, kFrames> out_;
  uint32_t started_ = 0, through_ = 0;  // frames; the one after those started is filled
  bool wants_room_ = false;
  bool is_leaving_ = false, has_said_so_ = false, owes_answer_ = false;

  // A frame is posted, arrives, and is posted again once its messages are taken, or at once if it
  // brings none.
  std::mutex posting_;
  std::array<Frame, kFrames> in_;
  std::deque<Frame*> empty_, full_;  // posted, and with messages, in their order
  std::atomic<uint32_t> posted_{0}, arrived_{0};
  uint32_t taken_ = 0;    // of those that arrived with messages
  int64_t at_ = kHeader;  // of the frame that is taken now

  BulkTransfers transfers_;
  std::thread sender_, receiver_;
};

}  // namespace poptorch::emulator
