// The places that index tensors point to. Every position k of a shape, in row-major order, maps to
// the number of a block of a tensor; an index out of range gives -1.
#pragma once

#include <vector>

#include "emulator/kernels/base/kernel.hpp"

namespace poptorch::emulator {

class Places {
 public:
  struct Index {
    int input = 0;
    ir::Shape strides;           // of the index tensor, by dimension of the shape
    int64_t size = 0;            // of the axis
    int64_t stride = 0;          // in blocks, of a step along it
    bool begins_window = false;  // one number, to which the innermost coordinate is added
  };
  // Operand 1 indexes the attribute `axis` of a tensor of shape `x`: whole slices for index_select,
  // elements for gather.
  static Places of_slices(const KernelRequest& request, const ir::Shape& x);
  static Places of_elements(const KernelRequest& request, const ir::Shape& x);
  // Operands from `first` on index the leading axes.
  static Places of_blocks(const KernelRequest& request, const ir::Shape& x, int first);
  // The places are `size` slices along the axis from the number in operand `start` on, wrapping
  // past the end.
  static Places of_window(const KernelRequest& request, const ir::Shape& x, int start,
                          int64_t size);

  int64_t count() const { return count_; }
  int64_t blocks() const { return blocks_; }  // of the tensor
  int64_t run() const { return run_; }        // elements of a block
  // Writes the places [begin, end).
  void find(const KernelArgs& args, int64_t begin, int64_t end, int32_t* places) const;

 private:
  Places(ir::Shape sizes, ir::Shape strides, std::vector<Index> indices, const ir::Shape& x,
         int64_t run);

  ir::Shape sizes_;    // at least one
  ir::Shape strides_;  // in blocks, without what the indices add
  std::vector<Index> indices_;
  int64_t count_, blocks_, run_;
  bool rows_are_equal_;  // but for the distance between rows of the tensor
};

}  // namespace poptorch::emulator
