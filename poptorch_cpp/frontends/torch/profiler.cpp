// Reports regions to at::RecordFunction, which torch.profiler and similar tools observe.
#include "frontends/torch/profiler.hpp"

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <utility>

#include "support/regions.hpp"

namespace poptorch::frontend {
namespace {

constexpr at::RecordScope kScope = at::RecordScope::USER_SCOPE;

// Holds the part of at::ThreadLocalState that profilers use. The rest (modes, dispatch keys) stays
// as it is on the pool's threads, so that kernels do the same with and without a profiler.
struct Listeners {
  at::RecordFunctionTLS callbacks = at::get_record_function_tls_();
  std::shared_ptr<c10::ThreadLocalDebugInfo> profiler = c10::ThreadLocalDebugInfo::current();

  void take_effect() const {
    at::set_record_function_tls_(callbacks);
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(profiler);
  }
};

struct Open {
  Open(std::string named, at::StepCallbacks&& callbacks)
      : name(std::move(named)), function(std::move(callbacks)) {}
  std::string name;  // `function` refers to it
  at::RecordFunction function;
};

class ProfilerRegions final : public support::RegionObserver {
 public:
  bool listens() const override { return at::getStepCallbacksUnlessEmpty(kScope).has_value(); }

  void* enter(const std::string& name) override {
    auto callbacks = at::getStepCallbacksUnlessEmpty(kScope);
    if (!callbacks) return nullptr;
    auto region = std::make_unique<Open>(name, std::move(*callbacks));
    region->function.before(std::string_view(region->name));
    return region.release();
  }
  void leave(void* region) override { delete static_cast<Open*>(region); }

  std::shared_ptr<const void> context() const override {
    return std::make_shared<const Listeners>();
  }
  void* adopt(const void* context) override {
    const auto& listening = *static_cast<const Listeners*>(context);
    auto before = std::make_unique<Listeners>();
    // A thread that already has this profiler, for all of its machines, keeps its state.
    if (listening.profiler && before->profiler == listening.profiler) return nullptr;
    listening.take_effect();
    return before.release();
  }
  void release(void* adopted) override {
    const std::unique_ptr<Listeners> before(static_cast<Listeners*>(adopted));
    if (before) before->take_effect();
  }
};

}  // namespace

void show_regions_to_profilers() {
  // The observer is never destroyed: threads may call it while the process ends.
  static auto* const regions = new ProfilerRegions;
  support::set_region_observer(regions);
}

}  // namespace poptorch::frontend
