// Memory that instances of one host lend each other: pages of a file of its own that the others
// map, to read operands where they are. Nobody writes another's. What others say of theirs is
// checked before it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace poptorch::emulator {

class Lending {
 public:
  Lending();
  ~Lending();
  Lending(const Lending&) = delete;

  // The bytes, which keep their values, and what else is in their pages. Of Memory by pages, which
  // outlives this; before settle().
  void add(std::byte* begin, int64_t bytes);
  // UserError where the host has not the memory.
  void settle();

  // By which others find it: plain numbers.
  struct Offer {
    int64_t process = 0, file = -1, bytes = 0;  // 0: nothing is lent
    uint64_t key = 0;                           // with which the file begins
  };
  const Offer& offer() const { return offer_; }
  // Where `data` is among what is lent.
  int64_t offset_of(const std::byte* data) const;

  // What `instance`, with this name, lends: it is mapped when it is first asked for.
  void note(int instance, const Offer& offer, const std::string& name);
  // Thread-safe. nullptr: the instance has taken it back, as it does when it ends. UserError for
  // what is not in there, and where it cannot be mapped.
  const std::byte* at(int instance, int64_t offset, int64_t bytes);

 private:
  struct Range {
    std::byte* begin = nullptr;
    int64_t bytes = 0, offset = 0;  // in the file
  };
  struct Taken {
    Offer offer;
    std::string name;
    std::byte* begin = nullptr;  // once it is mapped
  };

  void move_to_file(Range& range);
  static void map(Taken& taken);

  Offer offer_;
  std::vector<Range> ranges_;  // ascending, once settled
  std::mutex taking_;
  std::map<int, Taken> taken_;
};

}  // namespace poptorch::emulator
