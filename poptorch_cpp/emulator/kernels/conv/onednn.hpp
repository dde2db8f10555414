// The only interface to oneDNN. Every primitive has the same attributes and is made for, and run
// on, one OpenMP thread. Results therefore never depend on the number of threads; parallelism comes
// from our pool.
#pragma once

#include <array>
#include <atomic>
#include <initializer_list>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <vector>

#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator::onednn {

const dnnl::engine& engine();

// Returns the attributes of all primitives: strict float32, and scratchpads given by the caller. In
// the library's own scratchpad mode, one primitive on two threads at once computes wrong values.
dnnl::primitive_attr attributes();

// Returns oneDNN's name of f32 or bf16.
dnnl::memory::data_type type_of(ir::DType dtype);
// Describes a tensor with strides in elements.
dnnl::memory::desc describe(const ir::Shape& shape, const ir::Shape& strides, ir::DType dtype);

// Calls `make` with OpenMP at one thread, a setting that a primitive keeps. Returns false when
// oneDNN does not implement the request.
bool made(const std::function<void()>& make);

// Returns false for implementations, by oneDNN's name, that are plain loops or gather patches for a
// product: ours are faster.
bool is_direct(std::string_view implementation);

// A primitive and the memory objects of its runs. It is immutable to its users: runs in different
// slots may be concurrent. Two concurrent runs in one slot (of two replicas) are allowed, at the
// cost of an allocation.
class Primitive {
 public:
  struct Argument {
    int kind;  // DNNL_ARG_SRC, ...
    dnnl::memory::desc desc;
  };
  Primitive(dnnl::primitive primitive, std::vector<Argument> arguments,
            const dnnl::memory::desc& scratchpad, int slots);
  ~Primitive();

  int64_t scratch_bytes() const { return scratch_bytes_; }
  // `pointers` has one pointer per argument, in order; more are ignored. `scratch` has
  // scratch_bytes(), 64-byte aligned.
  void run(int slot, std::initializer_list<void*> pointers, void* scratch) const;

 private:
  struct Slot;
  std::unique_ptr<Slot> make_slot() const;

  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;  // the scratchpad is the last
  int64_t scratch_bytes_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

// Returns the scratch of primitives that run one at a time; those that are not there need none.
int64_t shared_scratch(std::initializer_list<const std::unique_ptr<Primitive>*> primitives);

std::unique_ptr<Primitive> make_reorder(const dnnl::memory::desc& from,
                                        const dnnl::memory::desc& to, int slots);

}  // namespace poptorch::emulator::onednn
