// The file that holds an executable: a header and named sections, each with a digest.
//
//   8 bytes   "POPTORCH"
//   4, 4      version of the format; number of sections, at most 16
//   64 each   name (16, zero-padded), offset (8), length (8), XXH3-128 of its bytes (16), zeros
//   16        XXH3-128 of all of the above
//
// Numbers are little-endian. Sections lie in the order of the table at multiples of 64, each at the
// first such place after the one before. The gaps are zeros, and the last section ends the file. So
// opening a file refuses every truncation and every changed bit of the header. The first read of a
// section refuses every changed bit of it. A digest finds damage, not malice. A malicious file can
// do little, because a section is only data, which its reader checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "support/mapped_file.hpp"
#include "support/whole_file.hpp"

namespace poptorch::storage {

constexpr uint32_t kFormatVersion = 1;
constexpr size_t kMaxSections = 16;
constexpr size_t kAlignment = 64;

struct Digest {
  uint64_t low = 0, high = 0;
  bool operator==(const Digest&) const = default;
};
Digest digest_of(std::string_view bytes);
std::string hex(const Digest& digest);  // 32 digits

class ContainerWriter {
 public:
  // Begins a file of `sections` sections. Errors, here and below, are those of WholeFile.
  ContainerWriter(std::string path, size_t sections);
  ~ContainerWriter();
  // Begins a section with a name of up to 16 characters. All that is added belongs to it until the
  // next begins.
  void begin(std::string_view name);
  void add(const void* data, size_t bytes);
  void add(std::string_view bytes) { add(bytes.data(), bytes.size()); }
  // Throws InternalError unless all sections were begun.
  void commit();

 private:
  struct State;
  void end_section();
  std::unique_ptr<State> state_;
};

class Container {
 public:
  // Throws UserError `[file] '<path>' ...` for a file that is not a container, or is damaged.
  explicit Container(const std::string& path);
  // Reads bytes in memory, which must outlive the container; `name` is for messages.
  Container(std::string_view bytes, std::string name);

  const std::string& name() const { return name_; }
  bool has(std::string_view section) const;
  std::vector<std::string> sections() const;
  // Returns the bytes of a section; the first call checks their digest. Throws UserError if the
  // section is missing or damaged.
  std::string_view read(std::string_view section) const;
  // Returns writable bytes of a section; the file stays as it is. Requires a container of a file.
  std::shared_ptr<std::byte> private_pages(std::string_view section) const;

 private:
  struct Section {
    std::string name;
    size_t offset = 0, size = 0;
    Digest digest;
    bool is_checked = false;
  };
  void read_header();
  Section& find(std::string_view section) const;
  [[noreturn]] void refuse(const std::string& problem) const;

  std::string name_;
  std::unique_ptr<support::MappedFile> file_;
  std::string_view bytes_;
  mutable std::vector<Section> sections_;  // mutable: read() sets is_checked
  mutable std::mutex mutex_;
};

}  // namespace poptorch::storage
