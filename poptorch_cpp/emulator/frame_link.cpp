// Implements frame_link.hpp.
#include "emulator/frame_link.hpp"

#include <cstring>
#include <exception>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

constexpr uint64_t kMagic = 0x31726666706f70;  // "popffr1": another layout is another number
constexpr int64_t kGrain = FrameLink::kHeader;

struct FrameHead {
  uint64_t magic = kMagic;
  uint32_t number = 0;
  uint32_t used = 0;  // bytes, with this
  uint32_t leaves = 0, answers = 0;
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

FrameLink::FrameLink(std::unique_ptr<Wire> wire, Bell& bell) : wire_(std::move(wire)), bell_(bell) {
  for (uint32_t number = 0; number < in_.size(); ++number) post(number);
  sender_ = std::thread([this] { wait_for_sends(); });
  receiver_ = std::thread([this] { wait_for_frames(); });
}

void FrameLink::close() {
  if (!sender_.joinable()) return;
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
  sender_.join();
  receiver_.join();
  end_with("this instance has left the others");
  for (Frame& frame : in_) frame.transfer.reset();
  for (Frame& frame : out_) frame.transfer.reset();
  wire_.reset();
}

void FrameLink::end_with(const std::string& how) {
  std::lock_guard lock(ending_);
  if (end_.empty()) end_ = how;
  has_ended_ = true;
  bell_.ring();
}

std::string FrameLink::end() const {
  if (!has_ended_) return "";
  std::lock_guard lock(ending_);
  return end_;
}

bool FrameLink::send(const Tag& tag, const std::byte* data, int64_t bytes) {
  std::lock_guard lock(sending_);
  if (has_ended_ || is_leaving_) return false;
  if (has_free_frame() && filled().used + room_of(bytes) > kFrame) start_frame();
  if (!has_free_frame() || filled().used + room_of(bytes) > kFrame) {
    wants_room_ = true;
    return false;
  }
  Frame& frame = filled();
  const MessageHead head{.tag = tag, .bytes = static_cast<uint32_t>(bytes)};
  std::byte* at = frame.bytes.get() + frame.used;
  std::memcpy(at, &head, sizeof head);
  if (bytes > 0) std::memcpy(at + kGrain, data, static_cast<size_t>(bytes));
  frame.used += room_of(bytes);
  if (started_ == through_) start_frame();
  return true;
}

void FrameLink::say_farewell() {
  std::lock_guard lock(sending_);
  is_leaving_ = true;
  if (has_free_frame() && has_more()) start_frame();
}

bool FrameLink::has_more() {
  return filled().used > kGrain || owes_answer_ || (is_leaving_ && !has_said_so_);
}

// With the lock of sending, where there is a free frame.
void FrameLink::start_frame() {
  if (is_closing_) return;
  Frame& frame = filled();
  const FrameHead head{.number = started_,
                       .used = static_cast<uint32_t>(frame.used),
                       .leaves = is_leaving_,
                       .answers = owes_answer_};
  has_said_so_ = is_leaving_;
  owes_answer_ = false;
  std::memcpy(frame.bytes.get(), &head, sizeof head);
  try {
    frame.transfer = wire_->send(frame.bytes.get(), frame.used);
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
    // What is in a frame by and by goes when the one before it is through.
    if (through_ == started_ && has_more() && (!has_ended_ || owes_answer_)) start_frame();
    if (wants_room_) bell_.ring();
    wants_room_ = false;
  }
}

void FrameLink::post(uint32_t number) {
  std::lock_guard lock(posting_);
  if (is_closing_) return;
  Frame& frame = in_[number % in_.size()];
  try {
    frame.transfer = wire_->receive(frame.bytes.get(), kFrame);
  } catch (const std::exception& error) {
    return end_with(error.what());
  }
  posted_.fetch_add(1);
  posted_.notify_all();
}

void FrameLink::wait_for_frames() {
  for (uint32_t number = 0;; ++number) {
    posted_.wait(number);
    if (is_closing_) return;
    const Frame& frame = in_[number % in_.size()];
    try {
      frame.transfer->wait();
    } catch (const std::exception& error) {
      return end_with(error.what());
    }
    if (is_closing_) return;
    if (!take_head(frame, number)) return end_with("it has sent bytes that are no frame");
    arrived_.store(number + 1);
    bell_.ring();
  }
}

bool FrameLink::take_head(const Frame& frame, uint32_t number) {
  const auto head = head_at<FrameHead>(frame.bytes.get());
  if (head.magic != kMagic || head.number != number || head.used < kGrain || head.used > kFrame) {
    return false;
  }
  if (head.answers != 0) is_answered_ = true;
  if (head.leaves != 0) {
    std::lock_guard lock(sending_);
    owes_answer_ = true;
    if (has_free_frame()) start_frame();
    end_with("it has left the others");
  }
  return true;
}

bool FrameLink::peek(Message& message, const std::string& sender) {
  while (taken_ != arrived_.load()) {
    const std::byte* frame = in_[taken_ % in_.size()].bytes.get();
    const int64_t used = head_at<FrameHead>(frame).used;
    if (at_ >= used) {
      give_back();
      continue;
    }
    const auto head = head_at<MessageHead>(frame + at_);
    if (head.bytes > kMost || at_ + room_of(head.bytes) > used) {
      throw support::UserError(support::str("[instances] what ", sender, " sent is no message (",
                                            used - at_, " bytes, of length ", head.bytes,
                                            "). Start all instances anew."));
    }
    message = {head.tag, frame + at_ + kGrain, head.bytes};
    return true;
  }
  return false;
}

void FrameLink::drop(const Message& message) {
  at_ += room_of(message.bytes);
  if (at_ >= head_at<FrameHead>(in_[taken_ % in_.size()].bytes.get()).used) give_back();
}

void FrameLink::give_back() {
  at_ = kGrain;
  post(taken_++);
}

}  // namespace poptorch::emulator
