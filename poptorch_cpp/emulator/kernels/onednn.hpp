// The one door to oneDNN: every primitive is made with the same attributes, on one OpenMP thread,
// and runs on one, so that bits never depend on the number of threads; parallelism is our pool's.
#pragma once

#include <array>
#include <atomic>
#include <initializer_list>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "emulator/kernels/kernel.hpp"

namespace poptorch::emulator::onednn {

const dnnl::engine& engine();

// The attributes of all primitives: strict float32, scratchpads given by the caller (in the
// library's own mode, one primitive on two threads at once computes wrong values).
dnnl::primitive_attr attributes();

// A tensor of float32 with strides in elements.
dnnl::memory::desc describe(const ir::Shape& shape, const ir::Shape& strides);

// Calls `make` with OpenMP at one thread, which a primitive bakes in. False when oneDNN has no
// implementation for what was asked.
bool made(const std::function<void()>& make);

// A primitive and the memory objects of its runs. Immutable to its users: runs in different slots
// may happen at once; two in one slot at once (of two replicas) as well, at the cost of an
// allocation.
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
  // `pointers`: one an argument, in order; more are ignored. `scratch`: scratch_bytes(), 64-byte
  // aligned.
  void run(int slot, std::initializer_list<void*> pointers, void* scratch) const;

 private:
  struct Slot;
  std::unique_ptr<Slot> make_slot() const;

  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;  // the scratchpad is the last
  int64_t scratch_bytes_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

std::unique_ptr<Primitive> make_reorder(const dnnl::memory::desc& from,
                                        const dnnl::memory::desc& to, int slots);

}  // namespace poptorch::emulator::onednn
