// Maps a file's bytes into memory, without a copy: read-only, or as private copy-on-write pages.
// The bytes are those of the file that was opened, even if its name later stands for another file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace poptorch::support {

class MappedFile {
 public:
  // Throws UserError, with the system's message, unless `path` is a file that can be read.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }
  // Returns `size` writable bytes from `place`; writing to them does not change the file.
  std::shared_ptr<std::byte> private_pages(size_t place, size_t size) const;

 private:
  std::string path_;
  int file_ = -1;
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace poptorch::support
