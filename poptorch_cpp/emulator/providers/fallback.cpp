#include "emulator/providers/fallback.hpp"

#include <array>

#include "emulator/providers/foreign.hpp"
#include "ir/op_def.hpp"
#include "reference/reference.hpp"
#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::emulator {
namespace {

using support::str;

class ForeignKernel final : public BoundKernel {
 public:
  ForeignKernel(const PoptorchForeignProvider& provider, const KernelRequest& request)
      : provider_(provider), op_(request.op->name) {
    std::vector<PoptorchForeignType> inputs, outputs;
    for (const auto& type : request.inputs) inputs.push_back(described(type ? &*type : nullptr));
    for (size_t i = 0; i < request.outputs.size(); ++i) {
      outputs.push_back(described(request.output_used[i] ? &request.outputs[i] : nullptr));
    }
    std::vector<std::string> names, values;
    for (const auto& [name, value] : request.attrs) {
      names.push_back(name.text());
      const auto* text = std::get_if<std::string>(&value);
      values.push_back(text ? *text : ir::attr_text(value));
    }
    std::vector<PoptorchForeignAttr> attrs;
    for (size_t i = 0; i < names.size(); ++i) {
      attrs.push_back({names[i].c_str(), values[i].c_str()});
    }
    const PoptorchForeignOp op{op_.c_str(),
                               inputs.data(),
                               outputs.data(),
                               attrs.data(),
                               static_cast<int32_t>(inputs.size()),
                               static_cast<int32_t>(outputs.size()),
                               static_cast<int32_t>(attrs.size()),
                               request.replicas};
    std::array<char, 1024> error{};
    handle_ = provider.prepare(&op, error.data(), error.size());
    if (!handle_) throw support::UserError(explained(error.data()));
  }
  ~ForeignKernel() override { provider_.release(handle_); }

  int tasks(int) const override { return 1; }
  // The time is unknown and taken to be long; one task runs inline in any case.
  int64_t estimated_ns() const override { return 10000; }
  void run(const KernelArgs& args, int, int) const override {
    std::array<char, 1024> error{};
    if (provider_.run(handle_, reinterpret_cast<void* const*>(args.buffers),
                      static_cast<int32_t>(args.random.replica), error.data(), error.size()) != 0) {
      throw support::UserError(explained(error.data()));
    }
  }

 private:
  static PoptorchForeignType described(const ir::Type* type) {
    if (!type) return {-1, 0, nullptr};
    return {static_cast<int32_t>(type->dtype), static_cast<int32_t>(type->rank()),
            type->shape.data()};
  }

  // Returns the text with the op's name, unless it begins with that.
  std::string explained(const char* text) const {
    return std::string_view(text).starts_with("[" + op_) ? text : str("[", op_, "] ", text);
  }

  const PoptorchForeignProvider& provider_;
  std::string op_;
  void* handle_ = nullptr;
};

std::unique_ptr<BoundKernel> bind_foreign(const KernelRequest& request) {
  const std::string& name = request.op->provider;
  const PoptorchForeignProvider* provider = find_foreign_provider(name.c_str());
  if (provider) return std::make_unique<ForeignKernel>(*provider, request);
  const ir::Attr* schema = request.attrs.find("schema");
  const std::string which = schema ? str(" (", std::get<std::string>(*schema), ")") : "";
  throw support::UserError(str("[engine] op '", request.op->name, "'", which,
                               " needs the kernels of provider '", name,
                               "', which is not loaded. Load the library that registers it before "
                               "the program; for 'aten' that is PyTorch with PopTorch."));
}

// Runs as one task: plain loops serve tests and ops without a fast kernel.
class ReferenceKernel final : public BoundKernel {
 public:
  explicit ReferenceKernel(const KernelRequest& request)
      : op_(*request.op),
        attrs_(request.attrs),
        inputs_(request.inputs),
        outputs_(request.outputs),
        op_id_(request.op_id) {}

  int tasks(int) const override { return 1; }
  int64_t estimated_ns() const override { return 10000; }
  void run(const KernelArgs& args, int, int) const override {
    RandomKey random = args.random;
    random.op_id = op_id_;
    reference::run_reference({.op = op_,
                              .attrs = attrs_,
                              .inputs = inputs_,
                              .outputs = outputs_,
                              .buffers = args.buffers,
                              .random = random});
  }

 private:
  const ir::OpDef& op_;
  ir::Attrs attrs_;
  std::vector<std::optional<ir::Type>> inputs_;
  std::vector<ir::Type> outputs_;
  uint64_t op_id_;
};

}  // namespace

std::unique_ptr<BoundKernel> bind_fallback(const KernelRequest& request) {
  if (request.op->role == ir::Role::kOpaque) return bind_foreign(request);
  if (reference::find_kernel(request.op->name)) return std::make_unique<ReferenceKernel>(request);
  throw support::UnsupportedError(
      str("[engine] there is no kernel for op '", request.op->name, "'. Choose another op."));
}

}  // namespace poptorch::emulator
