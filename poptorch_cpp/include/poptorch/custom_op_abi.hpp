// The C interface between a library of custom ops and libpoptorch_core; custom_op.hpp is what ops
// are written with. Structures are read by the side that did not make them, during a call alone,
// but for what PoptorchCustomOp points to, which lives for ever. Nothing is thrown across.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Grows when anything below changes. A library of another number is refused by name.
#define POPTORCH_CUSTOM_OP_ABI 1

extern "C" {

enum {
  POPTORCH_CUSTOM_FLOAT,
  POPTORCH_CUSTOM_FLOATS,
  POPTORCH_CUSTOM_INT,
  POPTORCH_CUSTOM_INTS,
  POPTORCH_CUSTOM_STRING,
  POPTORCH_CUSTOM_STRINGS
};

// Where an input of a gradient op comes from.
enum {
  POPTORCH_CUSTOM_OF_INPUT,
  POPTORCH_CUSTOM_OF_OUTPUT,
  POPTORCH_CUSTOM_OF_GRADIENT  // of an output of the forward op
};

// `dtype` is a number of poptorch::custom::DType.
typedef struct PoptorchCustomType {
  int32_t dtype;
  int32_t rank;
  const int64_t* shape;
} PoptorchCustomType;

// `count` values of the kind `type`: one where that is no list. In a declaration they are the
// default; without one `is_required` is 1.
typedef struct PoptorchCustomAttr {
  const char* name;
  int32_t type;
  int32_t is_required;
  int64_t count;
  const float* floats;
  const int64_t* ints;
  const char* const* strings;
} PoptorchCustomAttr;

// One use of an op. `attrs` are those that it declares, in that order, defaults filled in. infer
// has neither outputs nor buffers, cost no buffers.
typedef struct PoptorchCustomCall {
  const PoptorchCustomType* inputs;
  const PoptorchCustomType* outputs;
  const PoptorchCustomAttr* attrs;
  int32_t input_count, output_count, attr_count;
  int32_t replica, replica_count;
  void* const* buffers;  // dense, row-major: the inputs', then the outputs'
} PoptorchCustomCall;

typedef struct PoptorchCustomGradient {
  const char* domain;
  const char* name;
  int32_t version;
  int32_t input_count;
  const int32_t* input_kinds;
  const int32_t* input_indices;
  int32_t output_count;
  const int32_t* gradient_of;  // of each output of the gradient op: the forward op's input
} PoptorchCustomGradient;

// As a number of attributes: whatever a use gives, sorted by name.
enum { POPTORCH_CUSTOM_ANY_ATTRS = -1 };

// Functions give 0, or write a text into `error` (`size` bytes, ended by 0) and give something
// else. They are called from any thread, by several at once.
typedef struct PoptorchCustomOp {
  // In every version of the interface these come first.
  int32_t abi;  // POPTORCH_CUSTOM_OP_ABI
  int32_t version;
  const char* domain;
  const char* name;

  void* self;  // handed to the functions
  int32_t input_count, output_count;
  int32_t attr_count;
  const PoptorchCustomAttr* attrs;
  // Calls `give` with the type of each output, in order.
  int32_t (*infer)(void* self, const PoptorchCustomCall* call,
                   void (*give)(void* to, const PoptorchCustomType* type), void* to, char* error,
                   size_t size);
  // NULL: an operation for each element of the results.
  int32_t (*cost)(void* self, const PoptorchCustomCall* call, double* flops, double* bytes,
                  char* error, size_t size);
  int32_t (*compute)(void* self, const PoptorchCustomCall* call, char* error, size_t size);
  const PoptorchCustomGradient* gradient;  // NULL: none
  int32_t summed_count;                    // inputs that arrive summed over the replicas
  const int32_t* summed_inputs;
} PoptorchCustomOp;

// Adds an op to the process, or replaces the one of its domain, name and version. One that is not
// well formed is refused with a warning, and again by name where it is used; the result is then 1.
int32_t poptorch_register_custom_op(const PoptorchCustomOp* op);

}  // extern "C"
