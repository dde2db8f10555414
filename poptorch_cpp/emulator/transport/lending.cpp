#include "emulator/transport/lending.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "emulator/host/memory.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using support::str;

constexpr auto kPage = static_cast<uintptr_t>(Memory::kPage);
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

[[noreturn]] void fail(const std::string& what, int error) {
  throw support::UserError(str(
      "[instances] the memory that instances of this host share ", what, ": ", std::strerror(error),
      ". Use a host with more memory, and start all instances as one user, "
      "who may look at own processes."));
}

// Returns a random key. Instances find a file by its number, which another file may have by then.
uint64_t new_key() {
  std::random_device source;
  return uint64_t{source()} << 32 | source();
}

}  // namespace

Lending::Lending() = default;

Lending::~Lending() {
  for (const auto& [instance, taken] : taken_) {
    if (taken.begin) munmap(taken.begin, static_cast<size_t>(taken.offer.bytes));
  }
  if (offer_.file >= 0) close(static_cast<int>(offer_.file));
}

void Lending::add(std::byte* begin, int64_t bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(begin) / kPage * kPage;
  const uintptr_t behind =
      (reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(bytes) + kPage - 1) / kPage *
      kPage;
  ranges_.push_back({reinterpret_cast<std::byte*>(first), static_cast<int64_t>(behind - first)});
}

void Lending::settle() {
  if (ranges_.empty()) return;
  std::ranges::sort(ranges_, {}, &Range::begin);
  std::vector<Range> joined;
  int64_t offset = Memory::kPage;
  for (Range range : ranges_) {
    if (!joined.empty() && range.begin <= joined.back().begin + joined.back().bytes) {
      Range& last = joined.back();
      const int64_t bytes = std::max(last.bytes, range.begin + range.bytes - last.begin);
      offset += bytes - std::exchange(last.bytes, bytes);
      continue;
    }
    range.offset = offset;
    offset += range.bytes;
    joined.push_back(range);
  }
  ranges_ = std::move(joined);
  offer_ = {.process = getpid(),
            .file = memfd_create("lent", MFD_CLOEXEC | MFD_ALLOW_SEALING),
            .bytes = offset,
            .key = new_key()};
  const int file = static_cast<int>(offer_.file);
  if (file < 0) fail("cannot be made", errno);
  if (pwrite(file, &offer_.key, sizeof offer_.key, 0) < 0) fail("cannot be written", errno);
  for (Range& range : ranges_) move_to_file(range);
  // Pages that another instance maps must not vanish while it reads them.
  if (fcntl(file, F_ADD_SEALS, kSeals) != 0) fail("cannot be sealed", errno);
}

void Lending::move_to_file(Range& range) {
  const auto file = static_cast<int>(offer_.file);
  for (int64_t done = 0; done < range.bytes;) {
    const ssize_t written = pwrite(file, range.begin + done,
                                   static_cast<size_t>(range.bytes - done), range.offset + done);
    if (written < 0 && errno != EINTR) fail("has not the room that is needed", errno);
    done += std::max<ssize_t>(written, 0);
  }
  if (mmap(range.begin, static_cast<size_t>(range.bytes), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, file, range.offset) == MAP_FAILED) {
    fail("cannot be mapped", errno);
  }
}

int64_t Lending::offset_of(const std::byte* data) const {
  const auto behind = std::ranges::upper_bound(ranges_, data, {}, &Range::begin);
  if (behind != ranges_.begin()) {
    const Range& range = *std::prev(behind);
    if (data < range.begin + range.bytes) return range.offset + (data - range.begin);
  }
  throw support::InternalError("[instances] an operand is not in memory that others can read.");
}

void Lending::note(int instance, const Offer& offer, const std::string& name) {
  taken_.try_emplace(instance, Taken{offer, name});
}

// Leaves `taken` unmapped if the file no longer exists.
void Lending::map(Taken& taken) {
  const Offer& offer = taken.offer;
  const std::string path = str("/proc/", offer.process, "/fd/", offer.file);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return;
  if (file < 0) fail(str("with ", taken.name, " cannot be opened"), errno);
  uint64_t key = 0;
  struct stat about{};
  const int seals = fcntl(file, F_GET_SEALS);  // -1: it is not a file that can have them
  const bool is_there = fstat(file, &about) == 0 && about.st_size == offer.bytes && seals >= 0 &&
                        (seals & kSeals) == kSeals &&
                        pread(file, &key, sizeof key, 0) == sizeof key && key == offer.key;
  void* pages =
      is_there ? mmap(nullptr, static_cast<size_t>(offer.bytes), PROT_READ, MAP_SHARED, file, 0)
               : nullptr;
  const int error = errno;
  close(file);
  if (pages == MAP_FAILED) fail(str("with ", taken.name, " cannot be mapped"), error);
  taken.begin = static_cast<std::byte*>(pages);
}

const std::byte* Lending::at(int instance, int64_t offset, int64_t bytes) {
  const auto found = taken_.find(instance);
  const int64_t most = found == taken_.end() ? 0 : found->second.offer.bytes;
  if (offset < 0 || bytes < 0 || bytes > most || offset > most - bytes) {
    throw support::UserError(str("[instances] instance ", instance, " names ", bytes, " bytes at ",
                                 offset, " of the ", most,
                                 " that it lends. Start all instances anew."));
  }
  Taken& taken = found->second;
  std::lock_guard lock(taking_);
  if (!taken.begin) map(taken);
  return taken.begin ? taken.begin + offset : nullptr;
}

}  // namespace poptorch::emulator
