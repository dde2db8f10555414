#include "emulator/transport/bulk_transfers.hpp"

#include <stdexcept>
#include <utility>

#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

// Returns the wire's lane for the request of that number. Frames use lane 0.
int lane_of(uint32_t number) { return static_cast<int>(number % 0x3fffffff) + 1; }

}  // namespace

BulkTransfers::BulkTransfers(Wire& wire, EventCount& events,
                             std::function<void(const std::string&)> failed)
    : wire_(wire), events_(events), failed_(std::move(failed)) {
  carrier_ = std::thread([this] { wait_for_transfers(); });
}

int64_t BulkTransfers::offer(const Tag& tag, const std::byte* data, int64_t bytes) {
  std::lock_guard lock(mutex_);
  const uint32_t number = open();
  offers_[tag].push_back({number, data, bytes});
  match(tag);
  return number;
}

int64_t BulkTransfers::request(const Tag& tag, std::byte* into, int64_t bytes) {
  std::lock_guard lock(mutex_);
  const uint32_t number = open();
  requests_[number] = {.tag = tag, .transfer = wire_.receive(into, bytes, lane_of(number))};
  note({.kind = Note::kWants, .number = number, .tag = tag, .bytes = bytes});
  return number;
}

bool BulkTransfers::is_over(int64_t number) const {
  std::lock_guard lock(mutex_);
  return !alive_.contains(static_cast<uint32_t>(number));
}

// Requires `mutex_`, as do end(), note(), match() and carry().
uint32_t BulkTransfers::open() {
  if (++last_ == 0) ++last_;
  alive_.insert(last_);
  ++open_;
  return last_;
}

void BulkTransfers::end(uint32_t number) {
  if (alive_.erase(number) > 0) --open_;
  events_.notify();
}

void BulkTransfers::note(const Note& note) {
  notes_.push_back(note);
  ++unsaid_;
}

bool BulkTransfers::say(Note& note) {
  std::lock_guard lock(mutex_);
  if (notes_.empty()) return false;
  note = notes_.front();
  notes_.pop_front();
  --unsaid_;
  return true;
}

bool BulkTransfers::hear(const Note& note) {
  std::lock_guard lock(mutex_);
  if (note.kind == Note::kWants) {
    wanted_[note.tag].push_back(note);
    match(note.tag);
    return true;
  }
  if (note.kind == Note::kWantsNoMore) {
    const auto found = wanted_.find(note.tag);
    // A request that is not found has been met: its bytes are on the way.
    if (found == wanted_.end()) return true;
    const auto is_it = [&](const Note& wanted) { return wanted.number == note.number; };
    if (std::erase_if(found->second, is_it) > 0) {
      this->note({.kind = Note::kComesNoMore, .number = note.number});
    }
    if (found->second.empty()) wanted_.erase(found);
    return true;
  }
  const auto found = requests_.find(note.number);
  if (found == requests_.end() || note.kind > Note::kComesNoMore) return false;
  if (note.kind == Note::kComes) {
    carry(note.number, std::move(found->second.transfer));
  } else {
    end(note.number);
  }
  requests_.erase(found);
  return true;
}

// Starts transfers from the offered buffers to the requests for them.
void BulkTransfers::match(const Tag& tag) {
  const auto offered = offers_.find(tag);
  const auto wanted = wanted_.find(tag);
  if (offered == offers_.end() || wanted == wanted_.end()) return;
  while (!offered->second.empty() && !wanted->second.empty()) {
    const Offer& from = offered->second.front();
    const Note& to = wanted->second.front();
    if (from.bytes != to.bytes) {
      throw std::runtime_error(support::str("it requests ", to.bytes,
                                            " bytes of a buffer that has ", from.bytes, " here"));
    }
    carry(from.number,
          wire_.send(const_cast<std::byte*>(from.data), from.bytes, lane_of(to.number)));
    note({.kind = Note::kComes, .number = to.number});
    offered->second.pop_front();
    wanted->second.pop_front();
  }
  if (offered->second.empty()) offers_.erase(offered);
  if (wanted->second.empty()) wanted_.erase(wanted);
}

void BulkTransfers::carry(uint32_t number, Transfer transfer) {
  if (is_closing_) return;
  under_way_.push_back({number, std::move(transfer)});
  posted_.notify_one();
}

bool BulkTransfers::withdraw(uint32_t program) {
  std::lock_guard lock(mutex_);
  for (auto at = offers_.begin(); at != offers_.end();) {
    if (at->first.program != program) {
      ++at;
      continue;
    }
    for (const Offer& offer : at->second) end(offer.number);
    at = offers_.erase(at);
  }
  bool all = under_way_.empty();
  for (auto& [number, request] : requests_) {
    if (request.tag.program != program) continue;
    all = false;
    if (std::exchange(request.is_cancelled, true)) continue;
    note({.kind = Note::kWantsNoMore, .number = number, .tag = request.tag});
  }
  return all || is_closing_;
}

void BulkTransfers::wait_for_transfers() {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait(lock, [this] { return !under_way_.empty() || is_closing_; });
    if (is_closing_) return;
    Wire::Transfer& first = *under_way_.front().transfer;
    lock.unlock();
    std::string failure;
    try {
      first.wait();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    lock.lock();
    if (is_closing_) return;
    if (!failure.empty()) {  // nothing comes after it
      is_closing_ = true;
      under_way_.clear();
      requests_.clear();
      lock.unlock();
      return failed_(failure);
    }
    end(under_way_.front().number);
    under_way_.pop_front();
  }
}

void BulkTransfers::close() {
  // A second caller waits until the first has ended the thread.
  std::lock_guard closing(closing_);
  {
    std::lock_guard lock(mutex_);
    is_closing_ = true;
    for (UnderWay& each : under_way_) each.transfer->abort();
  }
  posted_.notify_all();
  if (carrier_.joinable()) carrier_.join();
  std::lock_guard lock(mutex_);
  under_way_.clear();
  requests_.clear();
}

}  // namespace poptorch::emulator
