// Reads the GNU build-id note of the loaded object that contains this code.
#include "support/build_id.hpp"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace poptorch::support {
namespace {

constexpr size_t kNoteAlignment = 4;

size_t aligned(size_t bytes) { return (bytes + kNoteAlignment - 1) & ~(kNoteAlignment - 1); }

std::string id_in_notes(const unsigned char* at, size_t bytes) {
  const unsigned char* const end = at + bytes;
  ElfW(Nhdr) note;
  while (at + sizeof note <= end) {
    std::memcpy(&note, at, sizeof note);
    const unsigned char* const name = at + sizeof note;
    const unsigned char* const data = name + aligned(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof "GNU" &&
        std::memcmp(name, "GNU", sizeof "GNU") == 0) {
      std::string digits;
      for (size_t i = 0; i < note.n_descsz; ++i) {
        digits += "0123456789abcdef"[data[i] >> 4];
        digits += "0123456789abcdef"[data[i] & 15];
      }
      return digits;
    }
    at = data + aligned(note.n_descsz);
  }
  return "";
}

int look(dl_phdr_info* object, size_t, void* result) {
  const auto here = reinterpret_cast<uintptr_t>(&build_id);
  bool ours = false;
  std::string id;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD) ours |= here >= begin && here < begin + part.p_memsz;
    if (part.p_type == PT_NOTE && id.empty()) {
      id = id_in_notes(reinterpret_cast<const unsigned char*>(begin), part.p_memsz);
    }
  }
  if (ours) *static_cast<std::string*>(result) = id;
  return ours ? 1 : 0;
}

}  // namespace

std::string version() { return POPTORCH_VERSION; }

std::string torch_version() { return POPTORCH_TORCH_VERSION; }

std::string build_id() {
  std::string id;
  dl_iterate_phdr(look, &id);
  return id;
}

}  // namespace poptorch::support
