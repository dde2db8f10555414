#include "emulator/kernels/conv/onednn.hpp"

#include <algorithm>

#include "emulator/kernels/base/support.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

// The OpenMP runtime that oneDNN is built with exports these; they apply to the calling thread.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int);
}

namespace poptorch::emulator::onednn {
namespace {

// Sets OpenMP to one thread for this thread and scope, then restores the caller's setting.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }

 private:
  int before_;
};

dnnl::stream& stream_of_thread() {
  thread_local dnnl::stream stream(engine());
  return stream;
}

}  // namespace

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  return attributes;
}

dnnl::memory::data_type type_of(ir::DType dtype) {
  const bool brain = dtype == ir::DType::kBF16;
  return brain ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc describe(const ir::Shape& shape, const ir::Shape& strides, ir::DType dtype) {
  return {dnnl::memory::dims(shape.begin(), shape.end()), type_of(dtype),
          dnnl::memory::dims(strides.begin(), strides.end())};
}

bool is_direct(std::string_view implementation) {
  const auto has = [&](std::string_view part) {
    return implementation.find(part) != std::string_view::npos;
  };
  return !has("ref") && !has(":gemm:") && !implementation.starts_with("gemm:");
}

bool made(const std::function<void()>& make) {
  const OneThread one;
  try {
    make();
    return true;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return false;
    throw support::InternalError(
        support::str("[oneDNN] making a primitive failed: ", error.what(), "."));
  }
}

// Memory objects are bound to pointers at every run: a set has one owner at a time.
struct Primitive::Slot {
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> bound;
};

Primitive::Primitive(dnnl::primitive primitive, std::vector<Argument> arguments,
                     const dnnl::memory::desc& scratchpad, int slots)
    : primitive_(std::move(primitive)),
      arguments_(std::move(arguments)),
      scratch_bytes_(static_cast<int64_t>(scratchpad.get_size())) {
  arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad});
  for (int i = 0; i < slots; ++i) slots_.push_back(make_slot());
}

Primitive::~Primitive() = default;

std::unique_ptr<Primitive::Slot> Primitive::make_slot() const {
  auto slot = std::make_unique<Slot>();
  for (const Argument& argument : arguments_) {
    slot->memories.emplace_back(argument.desc, engine(), nullptr);
    slot->bound.push_back({argument.kind, slot->memories.back().get()});
  }
  return slot;
}

void Primitive::run(int slot, std::initializer_list<void*> pointers, void* scratch) const {
  Slot* mine = slots_[slot].get();
  std::unique_ptr<Slot> spare;
  if (mine->busy.test_and_set(std::memory_order_acquire)) {
    spare = make_slot();
    mine = spare.get();
  }
  const size_t last = arguments_.size() - 1;
  for (size_t i = 0; i < last; ++i) mine->memories[i].set_data_handle(pointers.begin()[i]);
  mine->memories[last].set_data_handle(scratch);
  const OneThread one;
  const auto status =
      dnnl_primitive_execute(primitive_.get(), stream_of_thread().get(),
                             static_cast<int>(mine->bound.size()), mine->bound.data());
  if (!spare) mine->busy.clear(std::memory_order_release);
  if (status != dnnl_success) {
    throw support::InternalError(
        support::str("[oneDNN] a primitive failed with status ", static_cast<int>(status), "."));
  }
}

int64_t shared_scratch(std::initializer_list<const std::unique_ptr<Primitive>*> primitives) {
  int64_t most = 0;
  for (const auto* primitive : primitives) {
    if (*primitive) most = std::max(most, (*primitive)->scratch_bytes());
  }
  return round_up(most, 64);
}

std::unique_ptr<Primitive> make_reorder(const dnnl::memory::desc& from,
                                        const dnnl::memory::desc& to, int slots) {
  std::unique_ptr<Primitive> made_of;
  const bool there = made([&] {
    const dnnl::reorder::primitive_desc reorder(engine(), from, engine(), to, attributes());
    made_of = std::make_unique<Primitive>(
        dnnl::reorder(reorder),
        std::vector<Primitive::Argument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
        reorder.scratchpad_desc(), slots);
  });
  if (!there) throw support::InternalError("[oneDNN] there is no reorder of these layouts.");
  return made_of;
}

}  // namespace poptorch::emulator::onednn
