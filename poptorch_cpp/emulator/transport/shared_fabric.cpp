#include "emulator/transport/shared_fabric.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "emulator/host/clock.hpp"
#include "emulator/transport/peer_process.hpp"
#include "emulator/transport/shared_ring.hpp"
#include "support/error.hpp"
#include "support/faults.hpp"
#include "support/strings.hpp"
#include "support/table.hpp"
#include "support/watch.hpp"

namespace poptorch::emulator {
namespace {

using support::str;
using support::UserError;

constexpr uint64_t kMagic = 0x32636672706f70;  // "poprfc2": another layout gets another number
constexpr int kMostInstances = 1024;
// Bytes of all rings of a host together, as long as each has kLeastRing. Long rings let the links
// of a chain work at once; rings that stay in the processor's cache are faster.
constexpr int64_t kRings = int64_t{64} << 20;
constexpr int64_t kMostRing = int64_t{1} << 20, kLeastRing = int64_t{1} << 16;
constexpr double kBetweenLooks = 0.02;  // seconds, between checks for a peer's process

// Describes an instance, in shared memory.
struct Place {
  std::atomic<uint64_t> started{0};  // start time; written before `process`
  std::atomic<int64_t> process{0};   // 0: it has not come
  std::atomic<uint32_t> has_left{0};
  EventCount events;  // Fabric::events()
};

// Begins the file. A Place per instance follows, then, for each sender, a ring per receiver.
struct Head {
  uint64_t magic = 0, instances = 0;
  uint64_t unused[6] = {};
};

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, HOST_NAME_MAX);
  return name;
}

int64_t ring_capacity(int instances) {
  const int64_t pairs = std::max(1, instances * (instances - 1));
  const auto share = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kRings / pairs)));
  return std::clamp(share, kLeastRing, kMostRing);
}

int64_t places_bytes(int instances) {
  return (static_cast<int64_t>(sizeof(Head) + sizeof(Place) * static_cast<size_t>(instances)) +
          63) /
         64 * 64;
}

int64_t file_bytes(int instances) {
  const int64_t ring = static_cast<int64_t>(sizeof(RingCounters)) + ring_capacity(instances);
  return places_bytes(instances) + ring * instances * instances;
}

class SharedFabric final : public Fabric {
 public:
  SharedFabric(int instance, int instances, std::vector<int> numbers)
      : instance_(instance),
        instances_(instances),
        numbers_(std::move(numbers)),
        peers_(static_cast<size_t>(instances)) {
    for (int i = static_cast<int>(numbers_.size()); i < instances; ++i) numbers_.push_back(i);
  }
  ~SharedFabric() override {
    if (!memory_) return;
    if (joined_ == getpid()) place(instance_).has_left = 1;
    munmap(memory_, static_cast<size_t>(file_bytes(instances_)));
  }

  // `name` is the file's in messages; `has_path` says whether others could open the file.
  void join(int file, const std::string& name, bool has_path);
  bool all_are_there() const { return missing().empty(); }
  std::vector<int> missing() const;
  void wait_for_all(double timeout);

  int instances() const override { return instances_; }
  int instance() const override { return instance_; }
  int64_t most_bytes() const override { return ring(0, 0).most_bytes(); }
  bool send(int to, const Tag& tag, const std::byte* data, int64_t bytes) override;
  using Fabric::receive;
  bool receive(int from, const Tag& tag, int64_t bytes, const Use& use) override;
  bool is_next(int from, const Tag& tag) override {
    Source there = source(from);
    Peer& peer = peers_[from];
    return peer.mailbox.is_next(there, tag, peer.name);
  }
  bool is_on_this_host(int /*other*/) const override { return true; }
  void read_all() override;
  std::string end_of(int other) override;
  bool is_stopped(int other) override { return peers_[other].process.is_stopped(); }
  std::string name(int other) const override {
    return str("instance ", numbers_[other], " on ", host_, " (process ",
               place(other).process.load(), ")");
  }
  EventCount& events() override { return place(instance_).events; }
  void forget(uint32_t program, uint32_t run) override {
    for (Peer& peer : peers_) peer.mailbox.forget(program, run);
  }
  int64_t last_run(int other, uint32_t program) override {
    return peers_[other].mailbox.last_run(program);
  }

 private:
  struct Peer {
    std::mutex sending;
    Mailbox mailbox;
    std::string name;
    PeerProcess process;
    double next_look = 0;
    bool has_ended = false;
  };

  bool is_new(int file, const std::string& name, bool has_path) const;
  void lay_out();
  // Reads what another instance has sent, and notifies it of the room that drop() makes.
  struct Source final : MessageSource {
    Source(SharedRing ring, EventCount& sender) : ring(ring), sender(sender) {}
    bool peek(Message& message, const std::string& name) override {
      return ring.peek(message, name);
    }
    void drop(const Message& message) override {
      ring.drop(message);
      sender.notify();
    }
    SharedRing ring;
    EventCount& sender;
  };

  Source source(int from) const { return {ring(from, instance_), place(from).events}; }
  Place& place(int instance) const {
    return reinterpret_cast<Place*>(memory_ + sizeof(Head))[instance];
  }
  RingCounters* counters(int from, int to) const {
    const int64_t bytes = static_cast<int64_t>(sizeof(RingCounters)) + ring_capacity(instances_);
    return reinterpret_cast<RingCounters*>(memory_ + places_bytes(instances_) +
                                           (from * instances_ + to) * bytes);
  }
  SharedRing ring(int from, int to) const {
    RingCounters* const begin = counters(from, to);
    return {begin, reinterpret_cast<std::byte*>(begin + 1), ring_capacity(instances_)};
  }

  const int instance_, instances_;
  std::vector<int> numbers_;
  const std::string host_ = host_name();
  std::byte* memory_ = nullptr;
  pid_t joined_ = 0;  // the process that called join()
  support::Table<int, Peer> peers_;
};

[[noreturn]] void fail(const std::string& name, const std::string& what, int error) {
  throw UserError(str("[instances] the shared memory ", name, " ", what, ": ", std::strerror(error),
                      ". Choose a folder in memory with room for it."));
}

// Returns whether nothing has been written to the file, which then gets its length. Throws
// UserError unless it is empty or was laid out for as many instances.
bool SharedFabric::is_new(int file, const std::string& name, bool has_path) const {
  struct stat about{};
  if (fstat(file, &about) != 0) fail(name, "cannot be examined", errno);
  const bool is_open = has_path && (about.st_mode & 077) != 0;
  if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || is_open) {
    throw UserError(str("[instances] the shared memory ", name,
                        " is not private to this user (mode 0600). Choose another place."));
  }
  if (about.st_size == 0) {
    // Allocates the file's memory: touching a hole when the host lacks memory would end the
    // process.
    const int error = posix_fallocate(file, 0, file_bytes(instances_));
    if (error != 0) fail(name, "does not have the room that is needed", error);
    return true;
  }
  Head head;
  if (pread(file, &head, sizeof head, 0) != sizeof head || head.magic != kMagic ||
      head.instances != static_cast<uint64_t>(instances_) ||
      about.st_size != file_bytes(instances_)) {
    throw UserError(str("[instances] the shared memory ", name, " was made for ",
                        head.magic == kMagic ? head.instances : 0,
                        " instances, but this process is one of ", instances_,
                        ". Start all instances with the same numbers and the same version."));
  }
  return false;
}

// Creates the objects in the file, of which the head comes last.
void SharedFabric::lay_out() {
  for (int from = 0; from < instances_; ++from) {
    std::construct_at(&place(from));
    for (int to = 0; to < instances_; ++to) std::construct_at(counters(from, to));
  }
  std::construct_at(reinterpret_cast<Head*>(memory_),
                    Head{.magic = kMagic, .instances = static_cast<uint64_t>(instances_)});
}

// Requires the file's lock.
void SharedFabric::join(int file, const std::string& name, bool has_path) {
  support::meet_fault(support::FaultPoint::kJoin, "memory");
  const bool lays_out = is_new(file, name, has_path);
  void* pages = mmap(nullptr, static_cast<size_t>(file_bytes(instances_)), PROT_READ | PROT_WRITE,
                     MAP_SHARED, file, 0);
  if (pages == MAP_FAILED) fail(name, "cannot be mapped", errno);
  memory_ = static_cast<std::byte*>(pages);
  if (lays_out) lay_out();
  Place& own = place(instance_);
  if (own.process != 0) {
    throw UserError(str("[instances] ", this->name(instance_), " is already connected at ", name,
                        ". Give each process a different number, and each run a new place."));
  }
  joined_ = getpid();
  own.started = start_time(joined_);
  own.process = joined_;
}

std::vector<int> SharedFabric::missing() const {
  std::vector<int> missing;
  for (int other = 0; other < instances_; ++other) {
    if (place(other).process == 0) missing.push_back(numbers_[other]);
  }
  return missing;
}

void SharedFabric::wait_for_all(double timeout) {
  support::meet_fault(support::FaultPoint::kJoin, "memory");
  const double begin = now();
  for (int64_t round = 0; !all_are_there(); ++round) {
    support::check_interrupt();
    if (timeout > 0 && now() - begin > timeout) {
      throw UserError(str("[instances] after ", timeout, " s instance ",
                          support::join(missing(), ", "), " of ", instances_,
                          " has not joined. Look at its last output."));
    }
    nap(round, signal());
  }
  for (int other = 0; other < instances_; ++other) {
    const Place& there = place(other);
    peers_[other].process = PeerProcess(static_cast<pid_t>(there.process.load()), there.started);
    peers_[other].name = name(other);
  }
}

bool SharedFabric::send(int to, const Tag& tag, const std::byte* data, int64_t bytes) {
  std::lock_guard lock(peers_[to].sending);
  if (!ring(instance_, to).write(tag, data, bytes)) return false;
  place(to).events.notify();
  return true;
}

void SharedFabric::read_all() {
  for (int from = 0; from < instances_; ++from) {
    Source there = source(from);
    Peer& peer = peers_[from];
    peer.mailbox.read_all(there, peer.name);
  }
}

bool SharedFabric::receive(int from, const Tag& tag, int64_t bytes, const Use& use) {
  Source there = source(from);
  Peer& peer = peers_[from];
  return peer.mailbox.receive(there, tag, bytes, peer.name, use);
}

std::string SharedFabric::end_of(int other) {
  Peer& peer = peers_[other];
  std::lock_guard lock(peer.sending);
  if (place(other).has_left != 0) return "it has disconnected from the others";
  if (!peer.has_ended && now() >= peer.next_look) {
    peer.next_look = now() + kBetweenLooks;
    peer.has_ended = peer.process.has_ended();
  }
  return peer.has_ended ? "its process has ended" : "";
}

// Closes a file at the end of the object's lifetime.
struct FileCloser {
  ~FileCloser() { close(file); }
  int file;
};

// Locks a file for the object's lifetime.
struct LockedFile {
  LockedFile(int file, const std::string& name, double timeout) : file(file) {
    const double begin = now();
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EINTR && errno != EWOULDBLOCK) fail(name, "cannot be locked", errno);
      if (timeout > 0 && now() - begin > timeout) {
        throw UserError(str("[instances] the shared memory ", name, " has been locked by another ",
                            "instance for ", timeout, " s. Find out what that instance is doing."));
      }
      support::check_interrupt();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~LockedFile() { flock(file, LOCK_UN); }
  LockedFile(const LockedFile&) = delete;
  int file;
};

// Unlinks `path`, unless it is another file by now.
void take_away(const std::string& path, int file) {
  struct stat there{}, own{};
  if (lstat(path.c_str(), &there) == 0 && fstat(file, &own) == 0 && there.st_ino == own.st_ino &&
      there.st_dev == own.st_dev) {
    unlink(path.c_str());
  }
}

void check_numbers(int instance, int instances) {
  if (instances >= 1 && instances <= kMostInstances && instance >= 0 && instance < instances)
    return;
  throw UserError(str("[instances] there is no instance ", instance, " of ", instances,
                      " on a host. There can be at most ", kMostInstances, ", numbered from 0."));
}

}  // namespace

std::unique_ptr<Fabric> make_shared_fabric(const std::string& path, int instance, int instances,
                                           double timeout, std::vector<int> numbers) {
  check_numbers(instance, instances);
  auto fabric = std::make_unique<SharedFabric>(instance, instances, std::move(numbers));
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) fail(path, "cannot be opened", errno);
  const FileCloser closer{file};
  {
    const LockedFile lock(file, path, timeout);
    fabric->join(file, path, true);
    if (fabric->all_are_there()) unlink(path.c_str());
  }
  try {
    fabric->wait_for_all(timeout);
  } catch (...) {
    take_away(path, file);
    throw;
  }
  return fabric;
}

std::unique_ptr<Fabric> make_shared_fabric(int file, int instance, int instances, double timeout,
                                           std::vector<int> numbers) {
  check_numbers(instance, instances);
  auto fabric = std::make_unique<SharedFabric>(instance, instances, std::move(numbers));
  const std::string name = str("of file ", file);
  {
    // Opens the file again, because processes that inherited `file` share its lock.
    const int own = open(str("/proc/self/fd/", file).c_str(), O_RDWR | O_CLOEXEC);
    if (own < 0) fail(name, "cannot be opened", errno);
    const FileCloser closer{own};
    const LockedFile lock(own, name, timeout);
    fabric->join(own, name, false);
  }
  fabric->wait_for_all(timeout);
  return fabric;
}

}  // namespace poptorch::emulator
