// Functionalisation: which IR value a torch tensor holds now.
//
// Torch's tensors are views (sizes, strides, offset) of storages. A Root stands for one storage and
// has a current value; a write through any view gives the root a new value and a new version, and
// other views read theirs anew through the links that made them. Identity is that of StorageImpl:
// `.data`, detach, tied weights and the handles in C++ modules need nothing more.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <compare>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "frontends/torch/tracer/values/view_link.hpp"

namespace poptorch::frontend {

// Where a tensor's elements lie in its storage.
struct Geometry {
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  auto operator<=>(const Geometry&) const = default;
  static Geometry of(const at::Tensor& tensor);
  // The element of the storage behind each element of the view, row-major.
  std::vector<int64_t> element_offsets() const;
};

class Root;

// Where ops go now. Values of an enclosing graph have stand-ins there.
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual ir::Builder& builder() = 0;
  // `value`, which `owner` holds, as seen from builder().graph().
  virtual ir::Value* bring(ir::Value* value, const Root* owner) = 0;
  // What holds `data`, but whose gradient goes to `history`; nullptr: nowhere.
  virtual ir::Value* join(ir::Value* data, ir::Value* history, const Root* owner) = 0;
};

// What autograd knows of a storage, as told by handles (torch tensors) that it follows together: a
// tensor and its differentiable views. Memory that is written through others (detach, .data, under
// no_grad) holds the new data, and the gradient goes where it went before.
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
  // Weak: torch copies a new tensor that somebody else holds, and the copy would not be known.
  using Handle = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  std::unordered_map<const c10::TensorImpl*, Handle> handles_;
  std::map<Geometry, Sight> seen_;
};

class Root {
 public:
  // `tensor` spans the root and is its first handle; `value` is what it holds. `followed`: the
  // value's own history is the handle's.
  Root(const at::Tensor& tensor, ir::Value* value, bool followed);

  const Geometry& geometry() const { return geometry_; }
  ir::Value* value() const { return data_.seen_.at(geometry_).value; }
  bool written() const { return version_ != 0; }
  bool knows(const Geometry& view) const { return views_.contains(view); }
  // Makes `view`, which `link` reads from `base`, known. `base` must be known.
  void add_view(const Geometry& view, const Geometry& base, ViewLinkPtr link);
  // Makes `view` known by the places of its elements, when the root covers them all.
  bool add_strided_view(const Geometry& view);

  // The history that follows `tensor`; nullptr: none.
  History* history_of(const at::Tensor& tensor);
  // That of the tensor which made the root.
  History& first_history() { return *histories_.front(); }
  // As history_of, but a new one where there is none: `tensor` is cut off from the others.
  History& own_history_of(const at::Tensor& tensor);
  // From here on `history` sees `value` in place of what it saw of `view`: the same data.
  void replace(const Geometry& view, ir::Value* value, History& history);

  // What a view holds: the data alone, or as `history` sees it.
  ir::Value* read(Cursor& cursor, const Geometry& view) { return read(cursor, view, data_); }
  ir::Value* read(Cursor& cursor, const Geometry& view, History& history);
  // `history`: the one that follows the write; nullptr: none does.
  void write(Cursor& cursor, const Geometry& view, ir::Value* value, History* history);

  // Of a state slot: its name and the `variable` op's result.
  ir::Symbol slot;
  ir::Value* variable = nullptr;
  bool is_buffer = false;
  bool requires_grad = false;

 private:
  struct View {
    Geometry base;
    ViewLinkPtr link;  // nullptr: the root itself
  };
  friend class Memory;
  void put(Cursor& cursor, const Geometry& view, ir::Value* value, History& history);

  Geometry geometry_;
  c10::Storage storage_;  // kept alive: its address is the identity
  uint64_t version_ = 0;
  std::map<Geometry, View> views_;
  History data_;  // has no handles: the newest values, whoever wrote them
  std::vector<std::unique_ptr<History>> histories_;
};

// All roots of a trace.
class Memory {
 public:
  Root& add(const at::Tensor& tensor, ir::Value* value, bool followed);
  // The root behind `tensor`, with the tensor's geometry known to it; nullptr when there is none.
  Root* find(const at::Tensor& tensor);
  bool holds(const at::Tensor& tensor) const {
    return by_storage_.contains(tensor.storage().unsafeGetStorageImpl());
  }
  // After `tensor.data = ...`: its history goes on over the memory of `root`. nullptr: it has none.
  History* move_history(const at::Tensor& tensor, Root& root);
  const std::vector<std::unique_ptr<Root>>& roots() const { return roots_; }

 private:
  std::vector<std::unique_ptr<Root>> roots_;  // in order of creation
  std::unordered_multimap<const c10::StorageImpl*, Root*> by_storage_;
};

}  // namespace poptorch::frontend
