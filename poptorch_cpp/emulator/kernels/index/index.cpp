// Gathers and scatters of blocks by index tensors. Blocks that go to one place are written in the
// order of the indices: a task owns a range of places and searches all indices for them.
#include <cstring>
#include <limits>

#include "emulator/kernels/base/element_word.hpp"
#include "emulator/kernels/base/families.hpp"
#include "emulator/kernels/base/joins.hpp"
#include "emulator/kernels/base/layouts.hpp"
#include "emulator/kernels/base/support.hpp"
#include "emulator/kernels/base/tile_ops.hpp"
#include "emulator/kernels/index/index_places.hpp"
#include "emulator/kernels/sets/kernel_set.hpp"

namespace poptorch::emulator {
namespace {

constexpr int64_t kChunk = 512;  // places found at a time

// Returns whether blocks are copied as words, without a call.
bool is_small(int64_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; }

// Computes y[k] = x[place of k], or zeros where that is out of range. The output follows all
// operands.
class Pick final : public BoundKernel {
 public:
  Pick(const KernelRequest& request, Places places)
      : places_(std::move(places)),
        output_(static_cast<int>(request.inputs.size())),
        bytes_(places_.run() * ir::size_of(request.outputs[0].dtype)),
        ns_(places_.count() * (2 + bytes_ / 16)),
        parts_(parts_for(ns_, divide_up(places_.count(), is_small(bytes_) ? kChunk : 1))) {}
  int tasks(int) const override { return static_cast<int>(parts_); }
  int64_t estimated_ns() const override { return ns_; }
  void run(const KernelArgs& args, int, int task) const override {
    const Range range = part_of(places_.count(), parts_, task);
    int32_t from[kChunk];
    for (int64_t k = range.begin; k < range.end; k += kChunk) {
      const int64_t n = std::min(kChunk, range.end - k);
      places_.find(args, k, k + n, from);
      copy(args.buffers[0], from, n, args.buffers[output_] + k * bytes_);
    }
  }

 private:
  void copy(const std::byte* x, const int32_t* from, int64_t n, std::byte* y) const {
    if (is_small(bytes_)) {
      return with_word(bytes_, [&](auto block) {
        using T = decltype(block);
        const T* in = reinterpret_cast<const T*>(x);
        T* out = reinterpret_cast<T*>(y);
        for (int64_t i = 0; i < n; ++i) out[i] = from[i] < 0 ? T{} : in[from[i]];
      });
    }
    for (int64_t i = 0; i < n; ++i, y += bytes_) {
      from[i] < 0 ? std::memset(y, 0, static_cast<size_t>(bytes_))
                  : std::memcpy(y, x + from[i] * bytes_, static_cast<size_t>(bytes_));
    }
  }

  Places places_;
  int output_;
  int64_t bytes_, ns_, parts_;
};

// Writes block k of `src` to its place.
class Replace {
 public:
  Replace(int64_t run, int64_t element) : bytes_(run * element) {}
  void operator()(std::byte* y, const std::byte* src, int32_t place, int64_t k) const {
    if (!is_small(bytes_)) {
      std::memcpy(y + place * bytes_, src + k * bytes_, static_cast<size_t>(bytes_));
      return;
    }
    with_word(bytes_, [&](auto block) {
      using T = decltype(block);
      reinterpret_cast<T*>(y)[place] = reinterpret_cast<const T*>(src)[k];
    });
  }

 private:
  int64_t bytes_;
};

// Combines block k of `src` with the values at its place.
template <typename T, typename Op>
class Joined {
 public:
  Joined(int64_t run, int64_t) : run_(run) {}
  void operator()(std::byte* y, const std::byte* src, int32_t place, int64_t k) const {
    T* to = reinterpret_cast<T*>(y) + place * run_;
    const T* from = reinterpret_cast<const T*>(src) + k * run_;
#pragma GCC ivdep
    for (int64_t i = 0; i < run_; ++i) to[i] = Op::join(to[i], from[i]);
  }

 private:
  int64_t run_;
};

// Computes y = x, then writes block k of operand `src` at its place, for every k in order.
template <typename Write>
class Put final : public BoundKernel {
 public:
  Put(const KernelRequest& request, Places places, int src)
      : places_(std::move(places)),
        write_(places_.run(), ir::size_of(request.outputs[0].dtype)),
        src_(src),
        output_(static_cast<int>(request.inputs.size())),
        bytes_(request.outputs[0].bytes()),
        copy_parts_(parts_for(bytes_ / 8, bytes_)),
        find_parts_(parts_for(2 * places_.count(), places_.count())) {
    ns_ = places_.count() * (4 + places_.run() / 4);
    // Every part looks at all places; the choice of the part that writes a place does not change
    // the result.
    const int64_t most = request.threads == 1 ? 1 : 2 * request.threads;
    write_parts_ = std::min(parts_for(ns_, places_.blocks()), most);
  }
  int phases() const override { return 2; }
  int tasks(int phase) const override {
    return static_cast<int>(phase == 0 ? copy_parts_ + find_parts_ : write_parts_);
  }
  int64_t workspace_bytes() const override { return 4 * places_.count(); }
  int64_t estimated_ns() const override { return ns_ + bytes_ / 8; }
  void run(const KernelArgs& args, int phase, int task) const override {
    auto* to = reinterpret_cast<int32_t*>(args.workspace);
    std::byte *const x = args.buffers[0], *const y = args.buffers[output_];
    if (phase == 0 && task >= copy_parts_) {
      const Range range = part_of(places_.count(), find_parts_, task - copy_parts_);
      return places_.find(args, range.begin, range.end, to + range.begin);
    }
    if (phase == 0) {
      const Range range = part_of(bytes_, copy_parts_, task, 64);
      if (x != y) std::memcpy(y + range.begin, x + range.begin, static_cast<size_t>(range.size()));
      return;
    }
    const Range mine = part_of(places_.blocks(), write_parts_, task);
    for (int64_t k = 0; k < places_.count(); ++k) {
      if (to[k] >= mine.begin && to[k] < mine.end) write_(y, args.buffers[src_], to[k], k);
    }
  }

 private:
  Places places_;
  Write write_;
  int src_, output_;
  int64_t bytes_, copy_parts_, find_parts_, write_parts_ = 1, ns_ = 0;
};

// Computes y = x, then combines block k of `src` with the values at its place, for every k in
// order. Halves are combined as floats, place by place, and rounded once.
template <typename Op>
class JoinHalves final : public BoundKernel {
 public:
  // Shorter blocks are faster where everything is widened first.
  static constexpr int64_t kLeastRun = 16;

  JoinHalves(const KernelRequest& request, Places places, int src)
      : places_(std::move(places)),
        load_(load_fn(request.outputs[0].dtype)),
        store_(store_fn(request.outputs[0].dtype)),
        src_(src),
        output_(static_cast<int>(request.inputs.size())),
        bytes_(request.outputs[0].bytes()),
        copy_parts_(parts_for(bytes_ / 8, bytes_)),
        find_parts_(parts_for(2 * places_.count(), places_.count())),
        ns_(places_.count() * (8 + places_.run() / 4) + places_.blocks()),
        join_parts_(parts_for(ns_, places_.blocks())) {
    // Every part looks at all places.
    join_parts_ = std::min<int64_t>(join_parts_, request.threads == 1 ? 1 : 2 * request.threads);
  }
  int phases() const override { return 2; }
  int tasks(int phase) const override {
    return static_cast<int>(phase == 0 ? copy_parts_ + find_parts_ : join_parts_);
  }
  // The place of each k, the k that follows at the same place, and the first k of each place.
  int64_t workspace_bytes() const override { return 4 * (2 * places_.count() + places_.blocks()); }
  int64_t scratch_bytes() const override { return 2 * round_up(4 * places_.run(), 64); }
  int64_t estimated_ns() const override { return ns_ + bytes_ / 8; }
  void run(const KernelArgs& args, int phase, int task) const override {
    auto* to = reinterpret_cast<int32_t*>(args.workspace);
    if (phase == 1) return join(args, part_of(places_.blocks(), join_parts_, task), to);
    if (task >= copy_parts_) {
      const Range range = part_of(places_.count(), find_parts_, task - copy_parts_);
      return places_.find(args, range.begin, range.end, to + range.begin);
    }
    const Range range = part_of(bytes_, copy_parts_, task, 64);
    std::byte *const x = args.buffers[0], *const y = args.buffers[output_];
    if (x != y) std::memcpy(y + range.begin, x + range.begin, static_cast<size_t>(range.size()));
  }

 private:
  void join(const KernelArgs& args, Range mine, const int32_t* to) const {
    int32_t *next = reinterpret_cast<int32_t*>(args.workspace) + places_.count(),
            *first = next + places_.count();
    std::fill(first + mine.begin, first + mine.end, -1);
    for (int64_t k = places_.count() - 1; k >= 0; --k) {
      if (to[k] < mine.begin || to[k] >= mine.end) continue;
      next[k] = first[to[k]];
      first[to[k]] = static_cast<int32_t>(k);
    }
    const int64_t run = places_.run();
    auto* sum = reinterpret_cast<float*>(args.scratch);
    float* added = sum + round_up(4 * run, 64) / 4;
    for (int64_t place = mine.begin; place < mine.end; ++place) {
      if (first[place] < 0) continue;
      uint16_t* y = buffer_of<uint16_t>(args, output_) + place * run;
      convert(load_, y, sum, run);
      for (int32_t k = first[place]; k >= 0; k = next[k]) {
        convert(load_, input_of<uint16_t>(args, src_) + k * run, added, run);
#pragma GCC ivdep
        for (int64_t i = 0; i < run; ++i) sum[i] = Op::join(sum[i], added[i]);
      }
      convert(store_, sum, y, run);
    }
  }
  static void convert(MicroFn fn, const void* from, void* to, int64_t n) {
    MicroArgs args;
    args.src[0] = from;
    args.dst[0] = to;
    fn(args, n);
  }

  Places places_;
  MicroFn load_, store_;
  int src_, output_;
  int64_t bytes_, copy_parts_, find_parts_, ns_, join_parts_;
};

bool countable(const KernelRequest& request) {
  return request.inputs[0]->elements() <= std::numeric_limits<int32_t>::max() &&
         request.outputs[0].elements() > 0 && request.inputs[0]->elements() > 0;
}

std::unique_ptr<BoundKernel> pick(const KernelRequest& request, Places places) {
  return std::make_unique<Pick>(request, std::move(places));
}

template <typename Op>
std::unique_ptr<BoundKernel> join(const KernelRequest& request, Places places, int src) {
  const ir::DType dtype = request.outputs[0].dtype;
  if (dtype == ir::DType::kF32) {
    return std::make_unique<Put<Joined<float, Op>>>(request, std::move(places), src);
  }
  if (dtype == ir::DType::kI32) {
    return std::make_unique<Put<Joined<int32_t, Op>>>(request, std::move(places), src);
  }
  if (is_half(dtype) && places.run() >= JoinHalves<Op>::kLeastRun) {
    return std::make_unique<JoinHalves<Op>>(request, std::move(places), src);
  }
  return nullptr;
}

// Binds a kernel that joins; it takes halves as they are or, where it does not, as floats.
template <BindFn bind>
std::unique_ptr<BoundKernel> bind_joined(const KernelRequest& request) {
  if (auto kernel = bind_with_halves<bind>(request)) return kernel;
  return bind_floats<bind>(request);
}

std::unique_ptr<BoundKernel> replace(const KernelRequest& request, Places places, int src) {
  return std::make_unique<Put<Replace>>(request, std::move(places), src);
}

const ir::Shape& table(const KernelRequest& request) { return request.inputs[0]->shape; }

std::unique_ptr<BoundKernel> bind_gather(const KernelRequest& request) {
  if (!countable(request)) return nullptr;
  return pick(request, Places::of_elements(request, table(request)));
}
std::unique_ptr<BoundKernel> bind_select(const KernelRequest& request) {
  if (!countable(request)) return nullptr;
  return pick(request, Places::of_slices(request, table(request)));
}
std::unique_ptr<BoundKernel> bind_index(const KernelRequest& request) {
  if (!countable(request)) return nullptr;
  return pick(request, Places::of_blocks(request, table(request), 1));
}
std::unique_ptr<BoundKernel> bind_window(const KernelRequest& request) {
  if (!countable(request)) return nullptr;
  const int64_t size = request.attr<int64_t>("size");
  return pick(request, Places::of_window(request, table(request), 1, size));
}

std::unique_ptr<BoundKernel> bind_scatter_joined(const KernelRequest& request) {
  const auto& how = request.attr<std::string>("reduction");
  const auto bind = how == "sum"    ? join<Add>
                    : how == "prod" ? join<Multiply>
                    : how == "max"  ? join<Most>
                                    : join<Least>;
  return bind(request, Places::of_elements(request, table(request)), 2);
}
std::unique_ptr<BoundKernel> bind_scatter(const KernelRequest& request) {
  if (!countable(request)) return nullptr;
  if (request.attr<std::string>("reduction") != "none") {
    if (auto kernel = kernel_set().scatter_columns(request)) return kernel;
    return bind_joined<bind_scatter_joined>(request);
  }
  return replace(request, Places::of_elements(request, table(request)), 2);
}
std::unique_ptr<BoundKernel> bind_index_add(const KernelRequest& request) {
  if (!countable(request)) return nullptr;
  return join<Add>(request, Places::of_slices(request, table(request)), 2);
}
std::unique_ptr<BoundKernel> bind_accumulated(const KernelRequest& request) {
  return join<Add>(request, Places::of_blocks(request, table(request), 2), 1);
}
std::unique_ptr<BoundKernel> bind_index_put(const KernelRequest& request) {
  if (!countable(request)) return nullptr;
  if (request.attr<bool>("accumulate")) return bind_joined<bind_accumulated>(request);
  return replace(request, Places::of_blocks(request, table(request), 2), 1);
}
std::unique_ptr<BoundKernel> bind_window_put(const KernelRequest& request) {
  if (!countable(request)) return nullptr;
  const int64_t size = request.inputs[1]->shape[request.attr<int64_t>("axis")];
  return replace(request, Places::of_window(request, table(request), 2, size), 1);
}

}  // namespace

void add_index_kernels(KernelTable& table) {
  table.add({.op = "gather", .bind = bind_gather});
  table.add({.op = "index_select",
             .bind = bind_moved<bind_select>,
             .choose_layouts = choose_moved_layouts});
  table.add({.op = "index", .bind = bind_index});
  table.add({.op = "dynamic_slice", .bind = bind_window});
  table.add({.op = "scatter", .bind = bind_scatter, .in_place_input = {0}});
  table.add({.op = "index_add",
             .bind = bind_moved<bind_joined<bind_index_add>>,
             .choose_layouts = choose_moved_layouts,
             .in_place_input = {0}});
  table.add({.op = "index_put", .bind = bind_index_put, .in_place_input = {0}});
  table.add({.op = "dynamic_update", .bind = bind_window_put, .in_place_input = {0}});
}

}  // namespace poptorch::emulator
