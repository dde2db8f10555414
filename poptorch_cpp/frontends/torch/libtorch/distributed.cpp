// Implements collectives by operators for which the tracer has rows, and registers these.
#include "poptorch/distributed.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

#include "frontends/torch/tracer/graph/tracer.hpp"
#include "ir/execution.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::distributed {
namespace {

using frontend::Tracer;

// Names one of the public functions in its messages.
struct Function {
  const char* name;

  template <typename... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    const Tracer* tracer = Tracer::current();
    const std::string place = tracer ? tracer->place() : "";
    throw support::UserError(support::str("[", name, "] ", parts..., ".", place));
  }
};

// A group with a known number of members.
struct Members {
  int64_t size, stride;
};

Members members_of(const Function& function, const ReplicaGroup& group) {
  if (group.size < 0 || group.stride < 0) {
    function.fail("a group has the size ", group.size, " and the stride ", group.stride,
                  ". Both must be 0 or more");
  }
  Tracer* tracer = Tracer::current();
  if (!tracer) return {1, 1};
  const int64_t replicas = tracer->module().execution().replication_factor;
  const int64_t size = group.size == 0 ? replicas : group.size;
  const int64_t stride = group.stride == 0 ? std::max<int64_t>(replicas / size, 1) : group.stride;
  if (size > replicas || stride > replicas || replicas % (size * stride) != 0) {
    function.fail("groups of ", size, " replicas, ", stride, " apart, do not divide the ", replicas,
                  " replicas: the product of size and stride must. Choose another group, or call "
                  "replicationFactor()");
  }
  return {size, stride};
}

void check_tensor(const Function& function, const torch::Tensor& tensor) {
  if (!tensor.defined()) function.fail("a tensor is needed but there is none");
  if (!tensor.is_complex()) return;
  function.fail("a tensor of dtype ", c10::toString(tensor.scalar_type()),
                " is not taken. Pass torch.view_as_real of it");
}

struct Reduction {
  std::string op;
  const char* word;  // the core's
  bool of_floats_alone;
};

// Returns the core's word for `op`.
std::string reduction_of(const Function& function, const torch::Tensor& tensor,
                         const std::string& op) {
  static const std::array<Reduction, 5> kReductions{{{"sum", "sum", false},
                                                     {"mean", "mean", true},
                                                     {"min", "min", false},
                                                     {"max", "max", false},
                                                     {"prod", "mul", false}}};
  const auto row = std::find_if(kReductions.begin(), kReductions.end(),
                                [&](const Reduction& known) { return known.op == op; });
  if (row == kReductions.end()) {
    function.fail("op is '", op, "'. Expected one of sum, mean, min, max and prod");
  }
  static constexpr std::array kFloats{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};
  static constexpr std::array kWhole{at::kChar, at::kShort, at::kInt, at::kLong, at::kByte};
  const at::ScalarType dtype = tensor.scalar_type();
  const auto is_one_of = [dtype](const auto& types) {
    return std::find(types.begin(), types.end(), dtype) != types.end();
  };
  if (!is_one_of(kFloats) && (row->of_floats_alone || !is_one_of(kWhole))) {
    function.fail("op '", op, "' does not take a tensor of dtype ", c10::toString(dtype),
                  ". Cast it, as in x.float()");
  }
  return row->word;
}

int64_t wrapped(const Function& function, const char* name, int64_t dim,
                const torch::Tensor& tensor) {
  if (dim >= -tensor.dim() && dim < tensor.dim()) return dim < 0 ? dim + tensor.dim() : dim;
  function.fail(name, " is ", dim, ", which a tensor of ", tensor.dim(),
                " dimensions does not have");
}

// Returns `dim` counted from the front. UserError unless `parts` divides its number of elements.
int64_t divided(const Function& function, const char* name, int64_t dim,
                const torch::Tensor& tensor, int64_t parts) {
  dim = wrapped(function, name, dim, tensor);
  if (tensor.size(dim) % parts == 0) return dim;
  function.fail("dimension ", dim, " has ", tensor.size(dim), " elements, which the ", parts,
                " replicas of the group do not divide. Pad it");
}

// Calls an operator of torch.ops.poptorch, unless the tensor is empty.
template <typename... Arguments>
torch::Tensor call(const Function& function, const torch::Tensor& tensor,
                   const std::vector<int64_t>& shape, Arguments... arguments) {
  if (tensor.numel() == 0) return tensor.new_empty(shape);
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow((std::string("poptorch::") + function.name).c_str(), "")
      .typed<at::Tensor(const at::Tensor&, Arguments...)>()
      .call(tensor, arguments...);
}

}  // namespace

ReplicaGroup::ReplicaGroup(CommGroupType type, int64_t size) {
  if (type == CommGroupType::NoGrouping) this->size = 1;
  if (type == CommGroupType::All || type == CommGroupType::NoGrouping) return;
  if (size < 1) {
    throw support::UserError(support::str("[ReplicaGroup] there are no groups of ", size,
                                          " replicas. Say how many a group has."));
  }
  this->size = size;
  stride = type == CommGroupType::Orthogonal ? 0 : 1;
}

torch::Tensor all_reduce(const torch::Tensor& tensor, const std::string& op,
                         const ReplicaGroup& group) {
  constexpr Function self{"all_reduce"};
  check_tensor(self, tensor);
  const std::string reduction = reduction_of(self, tensor, op);
  const auto [size, stride] = members_of(self, group);
  if (size == 1) return tensor.clone();
  return call(self, tensor, tensor.sizes().vec(), reduction, size, stride);
}

torch::Tensor all_gather(const torch::Tensor& tensor, int64_t dim, const ReplicaGroup& group) {
  constexpr Function self{"all_gather"};
  check_tensor(self, tensor);
  const torch::Tensor vector = tensor.dim() == 0 ? tensor.reshape({1}) : tensor;
  dim = wrapped(self, "dim", dim, vector);
  const auto [size, stride] = members_of(self, group);
  if (size == 1) return vector.clone();
  auto shape = vector.sizes().vec();
  shape[dim] *= size;
  return call(self, vector, shape, dim, size, stride);
}

torch::Tensor reduce_scatter(const torch::Tensor& tensor, const std::string& op, int64_t dim,
                             const ReplicaGroup& group) {
  constexpr Function self{"reduce_scatter"};
  check_tensor(self, tensor);
  const std::string reduction = reduction_of(self, tensor, op);
  const auto [size, stride] = members_of(self, group);
  dim = divided(self, "dim", dim, tensor, size);
  if (size == 1) return tensor.clone();
  auto shape = tensor.sizes().vec();
  shape[dim] /= size;
  return call(self, tensor, shape, reduction, dim, size, stride);
}

torch::Tensor all_to_all(const torch::Tensor& tensor, int64_t split_dim, int64_t concat_dim,
                         const ReplicaGroup& group) {
  constexpr Function self{"all_to_all"};
  check_tensor(self, tensor);
  const auto [size, stride] = members_of(self, group);
  concat_dim = wrapped(self, "concat_dim", concat_dim, tensor);
  split_dim = divided(self, "split_dim", split_dim, tensor, size);
  if (size == 1) return tensor.clone();
  auto shape = tensor.sizes().vec();
  shape[split_dim] /= size;
  shape[concat_dim] *= size;
  return call(self, tensor, shape, split_dim, concat_dim, size, stride);
}

int64_t group_size(const ReplicaGroup& group) { return members_of({"group_size"}, group).size; }

torch::Tensor group_rank(const ReplicaGroup& group) {
  const int64_t size = members_of({"group_rank"}, group).size;
  // All replicas contribute 0 to size - 1; each keeps the one at its position.
  const auto number = at::TensorOptions(at::kInt).device(Tracer::current() ? at::kIPU : at::kCPU);
  if (size == 1) return at::zeros({}, number);
  return reduce_scatter(at::arange(size, number), "max", 0, group).reshape({});
}

// These operators need no kernels, since only a trace has more than one replica.
TORCH_LIBRARY_FRAGMENT(poptorch, m) {
  m.def("all_reduce(Tensor x, str op, int size, int stride) -> Tensor");
  m.def("all_gather(Tensor x, int dim, int size, int stride) -> Tensor");
  m.def("reduce_scatter(Tensor x, str op, int dim, int size, int stride) -> Tensor");
  m.def("all_to_all(Tensor x, int split_dim, int concat_dim, int size, int stride) -> Tensor");
}

}  // namespace poptorch::distributed
