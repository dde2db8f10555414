#include "support/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "support/error.hpp"
#include "support/strings.hpp"
#include "support/whole_file.hpp"

namespace poptorch::support {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw UserError("[file] " + file_problem("read", path, errno));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  struct stat about{};
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // opening a pipe does not block
  if (file_ < 0) fail(path);
  if (fstat(file_, &about) != 0 || !S_ISREG(about.st_mode)) {
    close(file_);
    throw UserError(
        str("[file] cannot read '", path, "': it is not a file. Give the name of a file."));
  }
  size_ = static_cast<size_t>(about.st_size);
  if (size_ == 0) return;
  void* pages = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file_, 0);
  if (pages == MAP_FAILED) {
    const int error = errno;
    close(file_);
    errno = error;
    fail(path);
  }
  data_ = static_cast<char*>(pages);
}

MappedFile::~MappedFile() {
  if (data_) munmap(data_, size_);
  close(file_);
}

std::shared_ptr<std::byte> MappedFile::private_pages(size_t place, size_t size) const {
  if (size == 0) return nullptr;
  const size_t before = place % static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t mapped = before + size;
  void* pages = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE, file_,
                     static_cast<off_t>(place - before));
  if (pages == MAP_FAILED) fail(path_);
  return {static_cast<std::byte*>(pages) + before, [=](std::byte*) { munmap(pages, mapped); }};
}

}  // namespace poptorch::support
