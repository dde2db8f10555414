#include <Python.h>
// Python.h comes first; the rest is in order.
#include <torch/csrc/utils/pybind.h>

#include "bindings/text.hpp"
#include "bindings/torch_collectives.hpp"
#include "ir/execution.hpp"
#include "poptorch/distributed.hpp"

namespace py = pybind11;

namespace poptorch::bindings {

using distributed::ReplicaGroup;

void bind_collectives(py::module_& m) {
  const auto size = py::arg("size"), stride = py::arg("stride");
  m.def(
      "all_reduce",
      [](const at::Tensor& tensor, const Text& op, int64_t size, int64_t stride) {
        return distributed::all_reduce(tensor, op, ReplicaGroup(size, stride));
      },
      py::arg("tensor"), py::arg("op"), size, stride);
  m.def(
      "all_gather",
      [](const at::Tensor& tensor, int64_t dim, int64_t size, int64_t stride) {
        return distributed::all_gather(tensor, dim, ReplicaGroup(size, stride));
      },
      py::arg("tensor"), py::arg("dim"), size, stride);
  m.def(
      "reduce_scatter",
      [](const at::Tensor& tensor, const Text& op, int64_t dim, int64_t size, int64_t stride) {
        return distributed::reduce_scatter(tensor, op, dim, ReplicaGroup(size, stride));
      },
      py::arg("tensor"), py::arg("op"), py::arg("dim"), size, stride);
  m.def(
      "all_to_all",
      [](const at::Tensor& tensor, int64_t split_dim, int64_t concat_dim, int64_t size,
         int64_t stride) {
        return distributed::all_to_all(tensor, split_dim, concat_dim, ReplicaGroup(size, stride));
      },
      py::arg("tensor"), py::arg("split_dim"), py::arg("concat_dim"), size, stride);
  m.def(
      "group_size",
      [](int64_t size, int64_t stride) {
        return distributed::group_size(ReplicaGroup(size, stride));
      },
      size, stride);
  m.def(
      "group_rank",
      [](int64_t size, int64_t stride) {
        return distributed::group_rank(ReplicaGroup(size, stride));
      },
      size, stride);
}

}  // namespace poptorch::bindings
