#include "emulator/transport/shared_pages.hpp"

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
#include "emulator/transport/peer_process.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using support::str;

constexpr auto kPage = static_cast<uintptr_t>(Memory::kPage);
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

[[noreturn]] void fail(const std::string& what, int error) {
  throw support::UserError(str("[instances] the memory that instances of this host share ", what,
                               ": ", std::strerror(error), ". Use a host with more memory."));
}

// Returns a random key. Instances find a file by its number, which another file may have by then.
uint64_t new_key() {
  std::random_device source;
  return uint64_t{source()} << 32 | source();
}

}  // namespace

SharedPages::SharedPages() = default;

SharedPages::~SharedPages() {
  for (const auto& [instance, mapping] : mappings_) {
    if (mapping.begin) munmap(mapping.begin, static_cast<size_t>(mapping.handle.bytes));
  }
  if (handle_.file >= 0) close(static_cast<int>(handle_.file));
}

void SharedPages::add(std::byte* begin, int64_t bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(begin) / kPage * kPage;
  const uintptr_t behind =
      (reinterpret_cast<uintptr_t>(begin) + static_cast<uintptr_t>(bytes) + kPage - 1) / kPage *
      kPage;
  ranges_.push_back({reinterpret_cast<std::byte*>(first), static_cast<int64_t>(behind - first)});
}

void SharedPages::settle() {
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
  handle_ = {.process = getpid(),
             .file = memfd_create("lent", MFD_CLOEXEC | MFD_ALLOW_SEALING),
             .bytes = offset,
             .key = new_key()};
  const int file = static_cast<int>(handle_.file);
  if (file < 0) fail("cannot be made", errno);
  if (pwrite(file, &handle_.key, sizeof handle_.key, 0) < 0) fail("cannot be written", errno);
  for (Range& range : ranges_) move_to_file(range);
  // Pages that another instance maps must not vanish while it reads them.
  if (fcntl(file, F_ADD_SEALS, kSeals) != 0) fail("cannot be sealed", errno);
}

void SharedPages::move_to_file(Range& range) {
  const auto file = static_cast<int>(handle_.file);
  for (int64_t done = 0; done < range.bytes;) {
    const ssize_t written = pwrite(file, range.begin + done,
                                   static_cast<size_t>(range.bytes - done), range.offset + done);
    if (written < 0 && errno != EINTR) fail("does not have the room that is needed", errno);
    done += std::max<ssize_t>(written, 0);
  }
  if (mmap(range.begin, static_cast<size_t>(range.bytes), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, file, range.offset) == MAP_FAILED) {
    fail("cannot be mapped", errno);
  }
}

int64_t SharedPages::offset_of(const std::byte* data) const {
  const auto behind = std::ranges::upper_bound(ranges_, data, {}, &Range::begin);
  if (behind != ranges_.begin()) {
    const Range& range = *std::prev(behind);
    if (data < range.begin + range.bytes) return range.offset + (data - range.begin);
  }
  throw support::InternalError(
      "[instances] an operand is not in memory that other instances can read.");
}

void SharedPages::note(int instance, const Handle& handle, const std::string& name) {
  mappings_.try_emplace(instance, Mapping{handle, name});
}

// Leaves `mapping` unmapped if the file no longer exists.
void SharedPages::map(Mapping& mapping) {
  const Handle& handle = mapping.handle;
  const std::string path = str("/proc/", handle.process, "/fd/", handle.file);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    const std::string why = why_not_opened(static_cast<pid_t>(handle.process), errno);
    if (why.empty()) return;
    throw support::UserError(
        str("[instances] the memory that ", mapping.name, " shares cannot be opened: ", why, "."));
  }
  uint64_t key = 0;
  struct stat about{};
  const int seals = fcntl(file, F_GET_SEALS);  // -1: it is not a file that can have them
  const bool is_there = fstat(file, &about) == 0 && about.st_size == handle.bytes && seals >= 0 &&
                        (seals & kSeals) == kSeals &&
                        pread(file, &key, sizeof key, 0) == sizeof key && key == handle.key;
  void* pages =
      is_there ? mmap(nullptr, static_cast<size_t>(handle.bytes), PROT_READ, MAP_SHARED, file, 0)
               : nullptr;
  const int error = errno;
  close(file);
  if (pages == MAP_FAILED) fail(str("with ", mapping.name, " cannot be mapped"), error);
  mapping.begin = static_cast<std::byte*>(pages);
}

const std::byte* SharedPages::at(int instance, int64_t offset, int64_t bytes) {
  const auto found = mappings_.find(instance);
  const int64_t most = found == mappings_.end() ? 0 : found->second.handle.bytes;
  if (offset < 0 || bytes < 0 || bytes > most || offset > most - bytes) {
    throw support::UserError(str("[instances] instance ", instance, " refers to ", bytes,
                                 " bytes at offset ", offset, " of the ", most,
                                 " bytes that it shares. Start all instances again."));
  }
  Mapping& mapping = found->second;
  std::lock_guard lock(mutex_);
  if (!mapping.begin) map(mapping);
  return mapping.begin ? mapping.begin + offset : nullptr;
}

}  // namespace poptorch::emulator
