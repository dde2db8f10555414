// Shares memory between instances of one host: pages of a separate file that the others map, to
// read operands in place. No instance writes another's memory. What an instance says about its
// memory is checked before that is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace poptorch::emulator {

class SharedPages {
 public:
  SharedPages();
  ~SharedPages();
  SharedPages(const SharedPages&) = delete;

  // Adds bytes, which keep their values, and all else in their pages. Requires Memory by pages that
  // outlives this, and a later settle().
  void add(std::byte* begin, int64_t bytes);
  // Moves the added pages to the file. Raises UserError where the host does not have the memory.
  void settle();

  // Holds the plain numbers by which other instances find the file.
  struct Handle {
    int64_t process = 0, file = -1, bytes = 0;  // 0: nothing is shared
    uint64_t key = 0;                           // with which the file begins
  };
  const Handle& handle() const { return handle_; }
  // Returns the offset of `data` in the file.
  int64_t offset_of(const std::byte* data) const;

  // Notes what `instance`, with this name, shares. The first at() maps it.
  void note(int instance, const Handle& handle, const std::string& name);
  // Thread-safe. Returns nullptr if the instance has withdrawn its memory, as it does when it ends.
  // Raises UserError for bytes outside the file, and when it cannot be mapped.
  const std::byte* at(int instance, int64_t offset, int64_t bytes);

 private:
  struct Range {
    std::byte* begin = nullptr;
    int64_t bytes = 0, offset = 0;  // in the file
  };
  struct Mapping {
    Handle handle;
    std::string name;
    std::byte* begin = nullptr;  // once it is mapped
  };

  void move_to_file(Range& range);
  static void map(Mapping& mapping);

  Handle handle_;
  std::vector<Range> ranges_;  // ascending, once settled
  std::mutex mutex_;
  std::map<int, Mapping> mappings_;
};

}  // namespace poptorch::emulator
