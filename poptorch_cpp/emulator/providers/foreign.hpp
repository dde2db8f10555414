// Kernels from outside the core (torch's ATen ops, custom ops). Each provider is a plain C table.
// An op names its provider; a program that needs a missing one is refused with its name.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

// Describes a type: `dtype` has the numbers of ir::DType, -1 for an absent operand or a result that
// nothing reads, which need not be written.
typedef struct PoptorchForeignType {
  int32_t dtype;
  int32_t rank;
  const int64_t* shape;
} PoptorchForeignType;

// Holds an attribute as text: strings as they are, the rest as the program prints them.
typedef struct PoptorchForeignAttr {
  const char* name;
  const char* value;
} PoptorchForeignAttr;

typedef struct PoptorchForeignOp {
  const char* name;  // "aten", "aten_vjp"
  const PoptorchForeignType* inputs;
  const PoptorchForeignType* outputs;
  const PoptorchForeignAttr* attrs;
  int32_t input_count, output_count, attr_count;
  int32_t replica_count;  // that run the program
} PoptorchForeignOp;

// Functions that can fail write a text into `error` (`size` bytes, ended by 0) and return NULL or
// non-zero; they throw nothing.
typedef struct PoptorchForeignProvider {
  const char* name;
  int32_t version;  // kForeignVersion
  // Makes a handle that runs the op. The data that `op` points to need not outlive the call.
  void* (*prepare)(const PoptorchForeignOp* op, char* error, size_t size);
  // Reads and writes dense row-major buffers: the inputs (NULL: absent), then the outputs. Is
  // called from any thread, by several at once for one handle, with OpenMP at one thread. `replica`
  // counts from 0.
  int32_t (*run)(void* handle, void* const* buffers, int32_t replica, char* error, size_t size);
  void (*release)(void* handle);
} PoptorchForeignProvider;

}  // extern "C"

namespace poptorch::emulator {

constexpr int32_t kForeignVersion = 2;

// Adds or replaces a provider for the whole process. It and its name must outlive every engine.
// Throws UserError if it was made for another version of the table.
void register_foreign_provider(const PoptorchForeignProvider& provider);
const PoptorchForeignProvider* find_foreign_provider(const char* name);

}  // namespace poptorch::emulator
