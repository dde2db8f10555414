#include "emulator/transport/frame_link.hpp"

#include <cstring>
#include <exception>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

constexpr uint64_t kFrameMagic = 0x33726666706f70;  // "popffr3": another layout gets another number
constexpr int64_t kGrain = FrameLink::kHeader;
constexpr int kFrameLane = 0;

struct FrameHead {
  uint64_t magic = kFrameMagic;
  uint32_t number = 0;
  uint32_t used = 0;  // bytes, including this header
  uint32_t leaves = 0, answers = 0;
  uint32_t notes = 0;  // how many BulkTransfers::Note follow the `used` bytes
};

struct MessageHead {
  Tag tag;
  uint32_t bytes = 0;
};

static_assert(sizeof(FrameHead) <= kGrain && sizeof(MessageHead) <= kGrain);

int64_t room_of(int64_t bytes) { return kGrain + (bytes + kGrain - 1) / kGrain * kGrain; }

template <typename Head>
Head head_at(const std::byte* at) {
  Head head;
  std::memcpy(&head, at, sizeof head);
  return head;
}

}  // namespace

FrameLink::FrameLink(std::unique_ptr<Wire> wire, EventCount& events)
    : wire_(std::move(wire)),
      events_(events),
      transfers_(*wire_, events, [this](const std::string& how) { end_with(how); }) {
  try {
    for (Frame& frame : in_) post(frame);
    sender_ = std::thread([this] { wait_for_sends(); });
    receiver_ = std::thread([this] { wait_for_frames(); });
  } catch (...) {  // a thread that is not joined would end the process
    close();
    throw;
  }
}

void FrameLink::close() {
  if (!wire_) return;
  {
    std::scoped_lock lock(sending_, posting_);
    is_closing_ = true;
    for (uint32_t number = through_; number != started_; ++number) {
      out_[number % kFrames].transfer->abort();
    }
    for (Frame& frame : in_) {
      if (frame.transfer) frame.transfer->abort();
    }
  }
  frame_started_.notify_all();
  posted_.fetch_add(1);
  posted_.notify_all();
  transfers_.close();
  for (std::thread* thread : {&sender_, &receiver_}) {
    if (thread->joinable()) thread->join();
  }
  end_with("this instance has disconnected from the others");
  for (Frame& frame : in_) frame.transfer.reset();
  for (Frame& frame : out_) frame.transfer.reset();
  wire_.reset();
}

void FrameLink::end_with(const std::string& how) {
  std::lock_guard lock(ending_);
  if (end_.empty()) end_ = how;
  has_ended_ = true;
  events_.notify();
}

std::string FrameLink::end() const {
  if (!has_ended_) return "";
  std::lock_guard lock(ending_);
  return end_;
}

bool FrameLink::send(const Tag& tag, const std::byte* data, int64_t bytes) {
  std::lock_guard lock(sending_);
  if (!has_room(bytes)) return false;
  put(tag, data, bytes);
  return true;
}

int64_t FrameLink::offer(const Tag& tag, const std::byte* data, int64_t bytes) {
  return open_transfer([&] { return transfers_.offer(tag, data, bytes); });
}

int64_t FrameLink::request(const Tag& tag, std::byte* into, int64_t bytes) {
  return open_transfer([&] { return transfers_.request(tag, into, bytes); });
}

template <typename Open>
int64_t FrameLink::open_transfer(Open open) {
  std::lock_guard lock(sending_);
  if (has_ended_ || is_leaving_ || is_closing_) return Fabric::kNoRoom;
  try {
    const int64_t transfer = open();
    say_notes();
    return transfer;
  } catch (const std::exception& error) {
    end_with(error.what());
    return Fabric::kNoRoom;
  }
}

bool FrameLink::withdraw(uint32_t program, bool is_last) {
  if (transfers_.withdraw(program)) return true;
  if (is_last || has_ended_) {
    end_with("a transfer of a failed run has not ended");
    transfers_.close();
    return true;
  }
  std::lock_guard lock(sending_);
  say_notes();
  return false;
}

// Requires `sending_`, as do put(), say_notes(), has_more() and start_frame().
bool FrameLink::has_room(int64_t bytes) {
  if (has_ended_ || is_leaving_) return false;
  if (has_free_frame() && filled().used + room_of(bytes) > kFrame) start_frame();
  if (!has_free_frame() || filled().used + room_of(bytes) > kFrame) {
    wants_room_ = true;
    return false;
  }
  return true;
}

void FrameLink::put(const Tag& tag, const std::byte* data, int64_t bytes) {
  Frame& frame = filled();
  const MessageHead head{.tag = tag, .bytes = static_cast<uint32_t>(bytes)};
  std::byte* at = frame.bytes.get() + frame.used;
  std::memcpy(at, &head, sizeof head);
  if (bytes > 0) std::memcpy(at + kGrain, data, static_cast<size_t>(bytes));
  frame.used += room_of(bytes);
  if (started_ == through_) start_frame();
}

void FrameLink::announce_end() {
  std::lock_guard lock(sending_);
  is_leaving_ = true;
  if (has_free_frame() && has_more()) start_frame();
}

void FrameLink::say_notes() {
  if (transfers_.has_notes() && started_ == through_) start_frame();
}

bool FrameLink::has_more() {
  return filled().used > kGrain || transfers_.has_notes() || owes_answer_ ||
         (is_leaving_ && !has_said_so_);
}

// Requires a free frame.
void FrameLink::start_frame() {
  if (is_closing_) return;
  Frame& frame = filled();
  FrameHead head{.number = started_,
                 .used = static_cast<uint32_t>(frame.used),
                 .leaves = is_leaving_,
                 .answers = owes_answer_};
  std::byte* end = frame.bytes.get() + frame.used;
  for (BulkTransfers::Note note; head.notes < kMostNotes && transfers_.say(note); ++head.notes) {
    std::memcpy(end, &note, sizeof note);
    end += sizeof note;
  }
  has_said_so_ = is_leaving_;
  owes_answer_ = false;
  std::memcpy(frame.bytes.get(), &head, sizeof head);
  try {
    frame.transfer = wire_->send(frame.bytes.get(), end - frame.bytes.get(), kFrameLane);
  } catch (const std::exception& error) {
    return end_with(error.what());
  }
  ++started_;
  frame_started_.notify_one();
}

void FrameLink::wait_for_sends() {
  std::unique_lock lock(sending_);
  for (;;) {
    frame_started_.wait(lock, [this] { return through_ != started_ || is_closing_; });
    if (is_closing_) return;
    Frame& frame = out_[through_ % kFrames];
    lock.unlock();
    try {
      frame.transfer->wait();
    } catch (const std::exception& error) {
      end_with(error.what());
    }
    lock.lock();
    frame.used = kGrain;
    ++through_;
    // Messages that came meanwhile go when the frame before them is through.
    if (through_ == started_ && has_more() && (!has_ended_ || owes_answer_)) start_frame();
    if (wants_room_) events_.notify();
    wants_room_ = false;
  }
}

void FrameLink::post(Frame& frame) {
  std::lock_guard lock(posting_);
  if (is_closing_) return;
  try {
    frame.transfer = wire_->receive(frame.bytes.get(), kRoom, kFrameLane);
    empty_.push_back(&frame);
  } catch (const std::exception& error) {
    return end_with(error.what());
  }
  posted_.fetch_add(1);
  posted_.notify_all();
}

FrameLink::Frame& FrameLink::oldest(const std::deque<Frame*>& frames) {
  std::lock_guard lock(posting_);
  return *frames.front();
}

void FrameLink::wait_for_frames() {
  for (uint32_t number = 0;; ++number) {
    posted_.wait(number);
    if (is_closing_) return;
    Frame& frame = oldest(empty_);
    bool has_messages = false;
    try {
      frame.transfer->wait();
      if (is_closing_) return;
      if (!take_head(frame, number)) return end_with("it has sent bytes that are not a frame");
      has_messages = head_at<FrameHead>(frame.bytes.get()).used > kGrain;
      std::lock_guard lock(posting_);
      empty_.pop_front();
      if (has_messages) full_.push_back(&frame);
    } catch (const std::exception& error) {
      return end_with(error.what());
    }
    if (has_messages) {
      arrived_.fetch_add(1);
    } else {
      post(frame);
    }
    events_.notify();
  }
}

bool FrameLink::take_head(const Frame& frame, uint32_t number) {
  const auto head = head_at<FrameHead>(frame.bytes.get());
  if (head.magic != kFrameMagic || head.number != number || head.used < kGrain ||
      head.used > kFrame || head.notes > kMostNotes) {
    return false;
  }
  const std::byte* notes = frame.bytes.get() + head.used;
  for (uint32_t i = 0; i < head.notes; ++i) {
    if (!transfers_.hear(head_at<BulkTransfers::Note>(notes + i * sizeof(BulkTransfers::Note))))
      return false;
  }
  if (head.notes > 0) {
    std::lock_guard lock(sending_);
    say_notes();
  }
  if (head.answers != 0) is_answered_ = true;
  if (head.leaves != 0) {
    std::lock_guard lock(sending_);
    owes_answer_ = true;
    if (has_free_frame()) start_frame();
    end_with("it has disconnected from the others");
  }
  return true;
}

bool FrameLink::peek(Message& message, const std::string& sender) {
  while (taken_ != arrived_.load()) {
    const std::byte* frame = oldest(full_).bytes.get();
    const int64_t used = head_at<FrameHead>(frame).used;
    if (at_ >= used) {
      give_back();
      continue;
    }
    const auto head = head_at<MessageHead>(frame + at_);
    if (head.bytes > kMost || at_ + room_of(head.bytes) > used) {
      throw support::UserError(
          support::str("[instances] ", sender, " sent bytes that are not a message (", used - at_,
                       " bytes, length ", head.bytes, "). Start all instances again."));
    }
    message = {head.tag, frame + at_ + kGrain, head.bytes};
    return true;
  }
  return false;
}

void FrameLink::drop(const Message& message) {
  at_ += room_of(message.bytes);
  if (at_ >= head_at<FrameHead>(oldest(full_).bytes.get()).used) give_back();
}

void FrameLink::give_back() {
  at_ = kGrain;
  Frame& frame = oldest(full_);
  {
    std::lock_guard lock(posting_);
    full_.pop_front();
  }
  ++taken_;
  post(frame);
}

}  // namespace poptorch::emulator
