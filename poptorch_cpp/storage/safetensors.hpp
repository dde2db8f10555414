// Tensors in the safetensors format (huggingface.co/docs/safetensors). A file has the length of a
// JSON header, the header with type, shape and place of each tensor, and their bytes without gaps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.hpp"

namespace poptorch::storage {

struct TensorPlace {
  std::string name;
  ir::Type type;
  size_t offset = 0;  // of its bytes
};

// Returns the tensors in the best order for alignment, with offsets relative to the end of the
// header. Tensors of whole cache lines come first, each at a multiple of 64. Within both groups,
// larger elements come first.
std::vector<TensorPlace> placed(std::vector<TensorPlace> tensors);
// Returns the length and the header of placed tensors, which are a multiple of 64 bytes together.
std::string safetensors_header(const std::vector<TensorPlace>& tensors);

// Returns the type that a type reads back as. The format lacks Graphcore's 8-bit floats, which
// become bytes.
ir::Type stored(ir::Type type);

// Returns the tensors in `bytes`; offsets count from the beginning of `bytes`. Throws UserError
// `[file] '<origin>' ...` unless all of it is as the format says.
std::vector<TensorPlace> read_safetensors(std::string_view bytes, const std::string& origin);

}  // namespace poptorch::storage
