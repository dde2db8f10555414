// The C interface between a library of custom ops and libpoptorch_core. Write ops with
// custom_op.hpp, which uses it. The receiver of a structure reads it only during the call, except
// what PoptorchCustomOp points to, which must live until the process ends. No exception crosses the
// interface.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Increases when anything below changes. The ops of a library with another number are refused by
// name.
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

// Says where an input of a gradient op comes from.
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

// An attribute: `count` values of the kind `type`, one unless that is a list. In a declaration they
// are the default; `is_required` is 1 for an attribute without a default.
typedef struct PoptorchCustomAttr {
  const char* name;
  int32_t type;
  int32_t is_required;
  int64_t count;
  const float* floats;
  const int64_t* ints;
  const char* const* strings;
} PoptorchCustomAttr;

// One use of an op. `attrs` are the attributes that it declares, in that order, with defaults
// filled in. A call of infer lacks outputs and buffers; a call of cost lacks buffers.
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
  const int32_t* gradient_of;  // for each output of the gradient op, the forward op's input
} PoptorchCustomGradient;

// An `attr_count` of an op that takes whatever attributes a use gives, sorted by name.
enum { POPTORCH_CUSTOM_ANY_ATTRS = -1 };

// Functions return 0, or write a null-terminated text into `error` (`size` bytes) and return
// another number. Any thread may call them, and several may do so at once.
typedef struct PoptorchCustomOp {
  // These members come first in every version of the interface.
  int32_t abi;  // POPTORCH_CUSTOM_OP_ABI
  int32_t version;
  const char* domain;
  const char* name;

  void* self;  // passed to the functions
  int32_t input_count, output_count;
  int32_t attr_count;
  const PoptorchCustomAttr* attrs;
  // Calls `give` with `to` and the type of each output, in order.
  int32_t (*infer)(void* self, const PoptorchCustomCall* call,
                   void (*give)(void* to, const PoptorchCustomType* type), void* to, char* error,
                   size_t size);
  // Computes the work of one use. NULL means one operation for each element of the results.
  int32_t (*cost)(void* self, const PoptorchCustomCall* call, double* flops, double* bytes,
                  char* error, size_t size);
  int32_t (*compute)(void* self, const PoptorchCustomCall* call, char* error, size_t size);
  const PoptorchCustomGradient* gradient;  // NULL: none
  int32_t summed_count;                    // inputs that arrive summed over the replicas
  const int32_t* summed_inputs;
} PoptorchCustomOp;

// Adds an op to the process, or replaces the op with the same domain, name and version. Returns 0,
// or 1 for an op that is not well formed: it is refused with a warning, and again by name where it
// is used.
int32_t poptorch_register_custom_op(const PoptorchCustomOp* op);

}  // extern "C"
