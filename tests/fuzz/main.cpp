// A libFuzzer program of one target: POPTORCH_FUZZ_TARGET is the function, POPTORCH_FUZZ_MUTATOR
// what changes its texts.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "targets.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  poptorch::fuzz::POPTORCH_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}

// Half of the mutations are of tokens: those of bytes seldom get past the parser.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most,
                                          unsigned int seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string text =
      poptorch::fuzz::POPTORCH_FUZZ_MUTATOR({reinterpret_cast<const char*>(data), size}, seed);
  const size_t count = std::min(text.size(), most);
  std::memcpy(data, text.data(), count);
  return count;
}
