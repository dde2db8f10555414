// Functionalisation: maps each torch tensor to the IR value that it holds now.
//
// Torch's tensors are views (sizes, strides, offset) of storages. A Root stands for a storage, or
// for a part of one, and has a current value. A write through any view gives the root a new value
// and a new version. Other views then read theirs again through the links that made them. The
// StorageImpl identifies a root, which is enough for `.data`, detach, tied weights and the handles
// in C++ modules.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "frontends/torch/tracer/values/view_link.hpp"

namespace poptorch::frontend {

// Describes where a tensor's elements lie in its storage, with the narrowed dtype, and whether
// torch conjugates or negates them when it reads them.
struct Geometry {
  using Lengths = c10::SmallVector<int64_t, 4>;  // a trace has several geometries for each tensor

  Lengths sizes, strides;
  int64_t offset = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool conjugates = false, negates = false;
  bool operator==(const Geometry&) const = default;
  std::strong_ordering operator<=>(const Geometry& other) const;
  static Geometry of(const at::Tensor& tensor);
  // Returns the offset in the storage of each element of the view, in row-major order.
  std::vector<int64_t> element_offsets() const;
};

class Root;

// Gives the place where ops are emitted now. Values of an enclosing graph have stand-ins there.
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual ir::Builder& builder() = 0;
  // Returns `value`, which `owner` holds, as seen from builder().graph().
  virtual ir::Value* bring(ir::Value* value, const Root* owner) = 0;
  // Returns a value with the contents of `data` whose gradient goes to `history`, or nowhere if
  // `history` is nullptr.
  virtual ir::Value* join(ir::Value* data, ir::Value* history, const Root* owner) = 0;
};

// Records what autograd knows of a storage. The handles are torch tensors that autograd follows
// together: a tensor and its differentiable views. After a write through another tensor (detach,
// .data, under no_grad) they hold the new data, but their gradient goes where it went before.
class History {
 public:
  bool has(const at::Tensor& tensor) const {
    return handles_.contains(tensor.unsafeGetTensorImpl());
  }
  void add(const at::Tensor& tensor);
  void remove(const at::Tensor& tensor) { handles_.erase(tensor.unsafeGetTensorImpl()); }
  // Sets requires_grad of every handle, as torch does when a write brings gradients in.
  void require_grad();

 private:
  friend class Memory;
  friend class Root;
  struct Sight {
    ir::Value* value = nullptr;
    uint64_t version = UINT64_MAX;
    bool replaced = false;
  };
  // Handles are weak: torch copies a new tensor to which another reference exists, and the copy
  // would be unknown.
  using Handle = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  std::unordered_map<const c10::TensorImpl*, Handle> handles_;
  std::map<Geometry, Sight> seen_;
};

class Root {
 public:
  // `tensor` spans the root and is its first handle; it holds `value`. If `followed` is set, the
  // handle has the history of `value`; otherwise it has none.
  Root(const at::Tensor& tensor, ir::Value* value, bool followed);

  const Geometry& geometry() const { return geometry_; }
  ir::Value* value() const { return data_.seen_.at(geometry_).value; }
  bool written() const { return version_ != 0; }
  bool knows(const Geometry& view) const { return views_.contains(view); }
  // Makes `view` known: `link` reads it from `base`, which must be known.
  void add_view(const Geometry& view, const Geometry& base, ViewLinkPtr link);
  // Makes `view` known by the places of its elements in `base`, which must be known. Returns false,
  // without effect, if `base` holds other numbers or does not cover them all.
  bool add_strided_view(const Geometry& view, const Geometry& base);

  // Returns the history that follows `tensor`, or nullptr.
  History* history_of(const at::Tensor& tensor);
  // Returns the history of the tensor that made the root.
  History& first_history() { return *histories_.front(); }
  // Like history_of(), but creates a history if there is none: `tensor` is then cut off from the
  // other handles.
  History& own_history_of(const at::Tensor& tensor);
  // Returns a new history that follows `tensor`. It sees what `history` sees now, but no later
  // write through it.
  History& fork_history(Cursor& cursor, History& history, const at::Tensor& tensor);
  // Makes `history` see `value` in `view` from now on. `value` has the same data as the value that
  // it replaces.
  void replace(const Geometry& view, ir::Value* value, History& history);

  // Return the value of a view: the data alone, or as `history` sees it.
  ir::Value* read(Cursor& cursor, const Geometry& view) { return read(cursor, view, data_); }
  ir::Value* read(Cursor& cursor, const Geometry& view, History& history);
  // Writes a view. `history` follows the write; nullptr: none does.
  void write(Cursor& cursor, const Geometry& view, ir::Value* value, History* history);

  // A state slot's name and the result of its `variable` op; empty for other roots.
  ir::Symbol slot;
  ir::Value* variable = nullptr;
  bool is_buffer = false;
  bool requires_grad = false;
  // The type that the tensor has outside of the trace, if it is wider than the root's.
  std::optional<c10::ScalarType> wide_type;

 private:
  struct View {
    Geometry base;
    ViewLinkPtr link;  // nullptr: the root itself
  };
  friend class Memory;
  void put(Cursor& cursor, const Geometry& view, ir::Value* value, History& history);
  // Returns the base and the link through which a write of `view` passes. They skip a view that
  // repeats elements, such as the result of expand(), if `view` has each of them once.
  View step_of_write(const Geometry& view) const;

  Geometry geometry_;
  c10::Storage storage_;  // kept alive: its address is the identity
  uint64_t version_ = 0;
  std::map<Geometry, View> views_;
  History data_;  // has no handles; the newest values, regardless of the writer
  std::vector<std::unique_ptr<History>> histories_;
};

// Holds all roots of a trace.
class Memory {
 public:
  Root& add(const at::Tensor& tensor, ir::Value* value, bool followed);
  // Returns the root whose memory `tensor` views, or nullptr. The root then knows the tensor's
  // geometry.
  Root* find(const at::Tensor& tensor);
  bool holds(const at::Tensor& tensor) const {
    return by_storage_.contains(tensor.storage().unsafeGetStorageImpl());
  }
  // Moves the history of `tensor`, which has the memory of `root` since `tensor.data = ...`, to
  // `root`. Returns nullptr if it has none.
  History* move_history(const at::Tensor& tensor, Root& root);
  const std::vector<std::unique_ptr<Root>>& roots() const { return roots_; }

 private:
  std::vector<std::unique_ptr<Root>> roots_;  // in order of creation
  std::unordered_multimap<const c10::StorageImpl*, Root*> by_storage_;
};

}  // namespace poptorch::frontend
