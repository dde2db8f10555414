// Tensors in the format safetensors (huggingface.co/docs/safetensors): the length of a JSON header,
// the header with type, shape and place of each tensor, their bytes without gaps.
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
  size_t offset = 0;  // of its bytes, in the whole
};

// Where tensors lie best: those of whole cache lines first, each at a multiple of 64; then by the
// size of their elements, largest first. Their offsets are relative to the end of the header.
std::vector<TensorPlace> placed(std::vector<TensorPlace> tensors);
// The length and the header of tensors that are placed, a multiple of 64 bytes together.
std::string safetensors_header(const std::vector<TensorPlace>& tensors);

// What a type reads back as: Graphcore's 8-bit floats are none of the format's, but bytes.
ir::Type stored(ir::Type type);

// The tensors in `bytes`; offsets count from their beginning. UserError `[file] '<origin>' ...`
// unless all of it is as the format says.
std::vector<TensorPlace> read_safetensors(std::string_view bytes, const std::string& origin);

}  // namespace poptorch::storage
