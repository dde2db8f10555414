// A file's bytes as memory, without a copy: read-only, or as pages of one's own that are copied
// where they are written. The bytes are those of the file that was opened, whatever its name comes
// to stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace poptorch::support {

class MappedFile {
 public:
  // UserError, with what the system said, where there is no such file to read.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }
  // `size` bytes from `place`, to write to; the file stays as it is.
  std::shared_ptr<std::byte> private_pages(size_t place, size_t size) const;

 private:
  std::string path_;
  int file_ = -1;
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace poptorch::support
