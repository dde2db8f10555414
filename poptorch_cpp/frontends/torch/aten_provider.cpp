// Fills the engine's C table of foreign kernels with functions that run a GenericCall.
#include "frontends/torch/aten_provider.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <cstdio>
#include <map>
#include <string>

#include "emulator/providers/foreign.hpp"
#include "frontends/torch/tracer/calls/generic_call.hpp"
#include "frontends/torch/tracer/graph/tracer.hpp"
#include "frontends/torch/tracer/values/types.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::frontend {
namespace {

struct Blob {
  bool present = false;
  ir::Type type;
};

Blob blob_of(const PoptorchForeignType& type) {
  if (type.dtype < 0) return {};
  return {true,
          {static_cast<ir::DType>(type.dtype), ir::Shape(type.shape, type.shape + type.rank)}};
}

std::map<std::string, std::string> attributes(const PoptorchForeignOp& op) {
  std::map<std::string, std::string> result;
  for (int32_t i = 0; i < op.attr_count; ++i) result[op.attrs[i].name] = op.attrs[i].value;
  return result;
}

// Parses a list of integers as the program prints it: "[0, 2]".
std::vector<int64_t> whole_numbers(const std::string& text) {
  std::vector<int64_t> result;
  const Json list = parse_json(text);
  for (const Json& item : list.get<JsonList>()) result.push_back(item.get<int64_t>());
  return result;
}

struct Prepared {
  GenericCall call;
  bool is_gradient;
  std::vector<int64_t> given, needed;
  std::vector<Blob> inputs, outputs;
  size_t operand_count;  // of the forward op; the other inputs are gradients

  std::vector<at::Tensor> tensors(const std::vector<Blob>& blobs, void* const* buffers) const {
    std::vector<at::Tensor> result;
    for (size_t i = 0; i < blobs.size(); ++i) {
      if (!blobs[i].present || !buffers[i]) {
        result.emplace_back();
        continue;
      }
      result.push_back(at::from_blob(buffers[i], blobs[i].type.shape,
                                     at::TensorOptions().dtype(torch_dtype(blobs[i].type.dtype))));
    }
    return result;
  }

  void run(void* const* buffers) const {
    const at::NoGradGuard no_grad;
    const auto held = tensors(inputs, buffers);
    const auto targets = tensors(outputs, buffers + inputs.size());
    const std::vector<at::Tensor> operands(held.begin(), held.begin() + operand_count);
    const std::vector<at::Tensor> gradients(held.begin() + operand_count, held.end());
    const auto results =
        is_gradient ? call.gradients(operands, gradients, given, needed) : call.run(operands);
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!targets[i].defined()) continue;
      if (results.at(i).defined()) {
        targets[i].copy_(results[i]);
      } else {
        targets[i].zero_();
      }
    }
  }
};

Prepared* make_prepared(const PoptorchForeignOp& op) {
  const auto attrs = attributes(op);
  const bool is_gradient = attrs.contains("wanted");
  GenericCall call(attrs.at("schema"), attrs.at("arguments"));
  auto prepared = std::make_unique<Prepared>(
      Prepared{std::move(call), is_gradient, {}, {}, {}, {}, static_cast<size_t>(op.input_count)});
  for (int32_t i = 0; i < op.input_count; ++i) prepared->inputs.push_back(blob_of(op.inputs[i]));
  for (int32_t i = 0; i < op.output_count; ++i) prepared->outputs.push_back(blob_of(op.outputs[i]));
  if (is_gradient) {
    prepared->given = whole_numbers(attrs.at("given"));
    prepared->needed = whole_numbers(attrs.at("wanted"));
    prepared->operand_count = prepared->call.operand_count();
    for (int64_t i : prepared->needed) {
      if (i < 0 || static_cast<size_t>(i) >= prepared->operand_count) {
        throw support::UserError(support::str("it has no operand ", i, " to differentiate."));
      }
    }
    const size_t named = prepared->operand_count + prepared->given.size();
    if (named != prepared->inputs.size()) {
      throw support::UserError(support::str("its arguments name ", named,
                                            " operands and gradients but it has ",
                                            prepared->inputs.size(), "."));
    }
  }
  return prepared.release();
}

// Returns whether `work` succeeds. If it throws, writes the reason into `error`. The operator of
// the call `of` precedes torch's own text.
template <typename Work>
bool explained(const GenericCall* of, char* error, size_t size, Work work) {
  try {
    work();
    return true;
  } catch (const support::Error& failure) {
    std::snprintf(error, size, "%s", failure.what());
  } catch (const c10::Error& failure) {
    const std::string schema = of ? of->schema() + ": " : "";
    std::snprintf(error, size, "%s%s", schema.c_str(), failure.what_without_backtrace());
  } catch (const std::exception&) {
    std::snprintf(error, size, "its arguments are not those of the operator.");
  }
  return false;
}

void* prepare(const PoptorchForeignOp* op, char* error, size_t size) {
  void* prepared = nullptr;
  explained(nullptr, error, size, [&] { prepared = make_prepared(*op); });
  return prepared;
}

int32_t run(void* handle, void* const* buffers, int32_t, char* error, size_t size) {
  const auto* prepared = static_cast<const Prepared*>(handle);
  return explained(&prepared->call, error, size, [&] { prepared->run(buffers); }) ? 0 : 1;
}

void release(void* handle) { delete static_cast<Prepared*>(handle); }

}  // namespace

void register_aten_provider() {
  static const PoptorchForeignProvider providers[] = {
      {"aten", emulator::kForeignVersion, prepare, run, release},
      {"aten_vjp", emulator::kForeignVersion, prepare, run, release}};
  static const bool registered = [] {
    for (const auto& provider : providers) emulator::register_foreign_provider(provider);
    return true;
  }();
  static_cast<void>(registered);
}

}  // namespace poptorch::frontend
