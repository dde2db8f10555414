// Half types on float32 kernels: operands are widened, and results are rounded.
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/stored.hpp"
#include "emulator/kernels/base/tile_ops.hpp"
#include "ir/op_def.hpp"

namespace poptorch::emulator {
namespace {

using ir::DType;

using ir::is_half;

constexpr int64_t kChunk = 16384;  // elements a task converts

class Widened final : public BoundKernel {
 public:
  // The kernel takes the buffers `stored` as they are, and runs the epilogue if that has the first
  // result.
  Widened(const KernelRequest& request, BindFn bind, const StoredBuffers& stored)
      : runs_epilogue_((stored.results & 1) == 0), epilogue_(runs_epilogue_ ? request : bare()) {
    KernelRequest wide = request;
    if (runs_epilogue_) wide.epilogue = nullptr;
    int index = 0;
    for (auto& type : wide.inputs) {
      if (type && !(stored.operands >> index & 1)) widen(*type, index, true);
      ++index;
    }
    for (size_t k = 0; k < wide.outputs.size(); ++k, ++index) {
      if (stored.results >> k & 1) continue;
      widen(wide.outputs[k], index, false);
      const bool used = request.output_used.empty() || request.output_used[k];
      if (!used && !(k == 0 && epilogue_)) unstored_ |= uint64_t{1} << index;
    }
    buffers_ = index;
    if (request.epilogue) buffers_ += request.epilogue->inputs() + request.epilogue->outputs() - 1;
    if (epilogue_) wide.output_used[0] = true;
    elements_ = request.outputs[0].elements();
    kernel_ = bind(wide);
  }
  bool bound() const { return kernel_ != nullptr; }
  // Returns the kernel itself if it takes everything as it is.
  std::unique_ptr<BoundKernel> take_unchanged() {
    return copies_.empty() ? std::move(kernel_) : nullptr;
  }
  int phases() const override { return kernel_->phases() + 2 + (epilogue_ ? 1 : 0); }
  int tasks(int phase) const override {
    if (phase == 0) return chunks_of(true);
    const int inner = kernel_->phases();
    if (phase <= inner) return kernel_->tasks(phase - 1);
    if (phase == inner + 1) return chunks_of(false);
    return static_cast<int>(divide_up(elements_, kChunk));
  }
  int64_t scratch_bytes() const override {
    return std::max(kernel_->scratch_bytes(), epilogue_.scratch_bytes());
  }
  int64_t workspace_bytes() const override { return bytes_ + kernel_->workspace_bytes(); }
  int64_t estimated_ns() const override { return kernel_->estimated_ns() + bytes_ / 8; }

  void run(const KernelArgs& args, int phase, int task) const override {
    const int inner = kernel_->phases();
    if (phase == 0 || phase == inner + 1) return convert(args, phase == 0, task);
    if (phase == inner + 2) {
      const int64_t first = task * kChunk;
      return epilogue_.run(args, {.first = first, .cols = std::min(kChunk, elements_ - first)},
                           args.scratch);
    }
    std::byte* buffers[kMaxKernelBuffers];
    for (int i = 0; i < buffers_; ++i) buffers[i] = args.buffers[i];
    for (const Copy& copy : copies_) buffers[copy.buffer] = args.workspace + copy.offset;
    KernelArgs wide = args;
    wide.buffers = buffers;
    wide.workspace = args.workspace + bytes_;
    kernel_->run(wide, phase - 1, task);
  }

 private:
  struct Copy {
    int buffer;
    DType dtype;
    int64_t elements, offset;
    bool input;
  };

  // Returns a request without an epilogue.
  static KernelRequest bare() { return {}; }
  void widen(ir::Type& type, int buffer, bool input) {
    if (!is_half(type.dtype)) return;
    copies_.push_back({buffer, type.dtype, type.elements(), bytes_, input});
    bytes_ += round_up(type.elements() * 4, 64);
    type.dtype = DType::kF32;
  }
  // Returns whether the phase before the kernel, or the one after it, converts a buffer.
  bool is_converted(const Copy& copy, bool input) const {
    return copy.input == input && (unstored_ >> copy.buffer & 1) == 0;
  }
  int chunks_of(bool input) const {
    int64_t chunks = 0;
    for (const Copy& copy : copies_) {
      if (is_converted(copy, input)) chunks += divide_up(copy.elements, kChunk);
    }
    return static_cast<int>(chunks);
  }
  void convert(const KernelArgs& args, bool input, int64_t task) const {
    for (const Copy& copy : copies_) {
      if (!is_converted(copy, input)) continue;
      const int64_t chunks = divide_up(copy.elements, kChunk);
      if (task >= chunks) {
        task -= chunks;
        continue;
      }
      if (!args.buffers[copy.buffer]) return;
      const int64_t first = task * kChunk;
      std::byte* half = args.buffers[copy.buffer] + first * 2;
      std::byte* wide = args.workspace + copy.offset + first * 4;
      MicroArgs micro;
      micro.src[0] = input ? half : wide;
      micro.dst[0] = input ? wide : half;
      const int64_t n = std::min(kChunk, copy.elements - first);
      (input ? load_fn(copy.dtype) : store_fn(copy.dtype))(micro, n);
      return;
    }
  }

  bool runs_epilogue_;
  Epilogue epilogue_;
  std::unique_ptr<BoundKernel> kernel_;
  std::vector<Copy> copies_;
  uint64_t unstored_ = 0;  // results that nothing reads
  int buffers_ = 0;
  int64_t bytes_ = 0, elements_ = 0;
};

}  // namespace

KernelRequest with_all_operands(const KernelRequest& request) {
  const auto& defs = request.op->operand_defs;
  KernelRequest full = request;
  if (defs.empty() || defs.back().variadic || full.inputs.size() >= defs.size()) return full;
  full.inputs.resize(defs.size());
  full.input_layouts.resize(defs.size());
  return full;
}

std::unique_ptr<BoundKernel> without_added_operands(std::unique_ptr<BoundKernel> kernel,
                                                    const KernelRequest& request) {
  const size_t all = with_all_operands(request).inputs.size(), given = request.inputs.size();
  if (all == given) return kernel;
  std::vector<int> from;
  for (size_t i = 0; i < all; ++i) from.push_back(i < given ? static_cast<int>(i) : -1);
  size_t rest = request.outputs.size();
  if (request.epilogue) rest += request.epilogue->inputs() + request.epilogue->outputs() - 1;
  for (size_t i = 0; i < rest; ++i) from.push_back(static_cast<int>(given + i));
  return rewire(std::move(kernel), std::move(from));
}

namespace {

template <typename F>
bool any_type(const KernelRequest& request, F f) {
  bool found = false;
  for (const auto& type : request.inputs) found |= type && f(type->dtype);
  for (const ir::Type& type : request.outputs) found |= f(type.dtype);
  return found;
}

}  // namespace

bool has_half(const KernelRequest& request) { return any_type(request, is_half); }

bool has_half_partials(const KernelRequest& request) {
  return request.attr<std::string>("partials") == "half";
}

bool only_float_to_32(const KernelRequest& request) {
  return !any_type(request, [](DType d) {
    return ir::is_complex(d) || (ir::is_float(d) && d != DType::kF32 && !is_half(d));
  });
}

namespace {

std::unique_ptr<BoundKernel> widened(const KernelRequest& request, BindFn bind,
                                     const StoredBuffers& stored) {
  auto kernel = std::make_unique<Widened>(request, bind, stored);
  if (!kernel->bound()) return nullptr;
  if (auto unchanged = kernel->take_unchanged()) return unchanged;
  return kernel;
}

// Returns the dtype of the buffers that `stored` names; nothing if they have several.
template <typename Types>
std::optional<DType> dtype_of(const Types& types, uint64_t stored) {
  std::optional<DType> found;
  for (size_t k = 0; k < types.size(); ++k) {
    if (!(stored >> k & 1)) continue;
    const std::optional<ir::Type> type = types[k];
    if (!type || (found && *found != type->dtype)) return std::nullopt;
    found = type->dtype;
  }
  return found;
}

BindFn form_of(const KernelRequest& request, const StoredBuffers& stored,
               const StoredForms& forms) {
  const auto from = dtype_of(request.inputs, stored.operands);
  const auto to = stored.results == 0 ? from : dtype_of(request.outputs, stored.results);
  if (!from || !to || !is_half(*from)) return nullptr;
  const bool half = *from == DType::kF16;
  if (*to == *from) return half ? forms.halves : forms.bfloats;
  if (*to == DType::kF32) return half ? forms.from_halves : forms.from_bfloats;
  return nullptr;
}

std::unique_ptr<BoundKernel> bind_form(const KernelRequest& full, const StoredBuffers& stored,
                                       const StoredForms& forms) {
  if (!has_half(full)) return forms.floats(full);
  if (const BindFn form = form_of(full, stored, forms)) {
    if (auto kernel = widened(full, form, stored)) return kernel;
  }
  return bind_widened(full, forms.floats);
}

}  // namespace

std::unique_ptr<BoundKernel> bind_widened(const KernelRequest& request, BindFn bind) {
  return widened(request, bind, {0, 0});
}

std::unique_ptr<BoundKernel> bind_stored_forms(const KernelRequest& request,
                                               const StoredBuffers& stored,
                                               const StoredForms& forms) {
  if (!only_float_to_32(request)) return nullptr;
  auto kernel = bind_form(with_all_operands(request), stored, forms);
  return kernel ? without_added_operands(std::move(kernel), request) : nullptr;
}

}  // namespace poptorch::emulator
