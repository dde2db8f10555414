// Reads JSON with nlohmann's parser, which does not recurse.
#include "storage/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "support/error.hpp"
#include "support/strings.hpp"

namespace poptorch::storage {
namespace {

using ir::DType;
using Json = nlohmann::ordered_json;
using support::str;

constexpr size_t kLine = 64;
constexpr size_t kLengthBytes = sizeof(uint64_t);
constexpr const char* kMetadata = "__metadata__";

constexpr std::pair<DType, const char*> kNames[] = {
    {DType::kBool, "BOOL"},         {DType::kI8, "I8"},
    {DType::kI16, "I16"},           {DType::kI32, "I32"},
    {DType::kI64, "I64"},           {DType::kU8, "U8"},
    {DType::kU16, "U16"},           {DType::kU32, "U32"},
    {DType::kU64, "U64"},           {DType::kF16, "F16"},
    {DType::kBF16, "BF16"},         {DType::kF32, "F32"},
    {DType::kF64, "F64"},           {DType::kF8_143, "U8"},
    {DType::kF8_152, "U8"},         {DType::kC64, "C64"},
    {DType::kF8_E4M3FN, "F8_E4M3"}, {DType::kF8_E5M2, "F8_E5M2"}};

const char* name_of(DType dtype) {
  for (const auto& [known, name] : kNames) {
    if (known == dtype) return name;
  }
  throw support::UnsupportedError(
      str("[file] tensors of ", dtype, " cannot be saved. Save them as two of another type."));
}

std::optional<DType> dtype_of(const std::string& name) {
  for (const auto& [dtype, known] : kNames) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

bool whole_lines(const TensorPlace& tensor) {
  return static_cast<size_t>(tensor.type.bytes()) % kLine == 0;
}

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  std::vector<TensorPlace> run() {
    uint64_t length = 0;
    if (bytes_.size() < kLengthBytes) refuse("there is no header");
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    if (length > bytes_.size() - kLengthBytes) refuse("the header is longer than the section");
    begin_ = kLengthBytes + length;
    const Json header =
        Json::parse(bytes_.substr(kLengthBytes, length), nullptr, /*allow_exceptions=*/false);
    if (!header.is_object()) refuse("the header is not a JSON object");
    std::vector<TensorPlace> tensors;
    for (const auto& [name, row] : header.items()) {
      if (name != kMetadata) tensors.push_back(read(name, row));
    }
    check_places(tensors);
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw support::UserError(
        str("[file] '", origin_, "' is damaged: in its tensors, ", problem, ". Write it again."));
  }

  // Reads a list of numbers that are not negative.
  ir::Shape numbers(const std::string& name, const Json& row, const char* key) const {
    const auto found = row.find(key);
    bool good = found != row.end() && found->is_array();
    ir::Shape result;
    for (const Json& item : good ? *found : Json::array()) {
      const bool fits = item.is_number_unsigned() && item.get<uint64_t>() <= INT64_MAX;
      result.push_back(fits ? item.get<int64_t>() : -1);
      good = good && fits;
    }
    if (!good) refuse(str(support::quoted(name), " has no ", key));
    return result;
  }

  TensorPlace read(const std::string& name, const Json& row) const {
    if (!row.is_object()) refuse(str(support::quoted(name), " is not an object"));
    const auto type = row.find("dtype");
    const auto dtype =
        type != row.end() && type->is_string() ? dtype_of(type->get<std::string>()) : std::nullopt;
    if (!dtype) refuse(str(support::quoted(name), " has an unknown type"));
    const ir::Shape shape = numbers(name, row, "shape"), ends = numbers(name, row, "data_offsets");
    const std::string defect = ir::defect_of(shape);
    if (!defect.empty()) refuse(str(support::quoted(name), " has a shape that is not possible"));
    const TensorPlace place{name, {*dtype, shape}, 0};
    if (ends.size() != 2 || ends[0] > ends[1] || ends[1] - ends[0] != place.type.bytes()) {
      refuse(str(support::quoted(name), " has a size that does not fit its shape"));
    }
    return {name, place.type, begin_ + static_cast<size_t>(ends[0])};
  }

  void check_places(std::vector<TensorPlace> tensors) const {
    std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
      return std::pair(a.offset, a.type.bytes()) < std::pair(b.offset, b.type.bytes());
    });
    size_t end = begin_;
    for (const TensorPlace& tensor : tensors) {
      if (tensor.offset != end) refuse(str(support::quoted(tensor.name), " is not at its offset"));
      end += static_cast<size_t>(tensor.type.bytes());
      if (end > bytes_.size())
        refuse(str(support::quoted(tensor.name), " ends after the end of the section"));
    }
    if (end != bytes_.size()) refuse("there are bytes after the last");
  }

  std::string_view bytes_;
  const std::string& origin_;
  size_t begin_ = 0;  // of the tensors
};

}  // namespace

ir::Type stored(ir::Type type) {
  const bool is_float8 = type.dtype == DType::kF8_143 || type.dtype == DType::kF8_152;
  if (is_float8) type.dtype = DType::kU8;
  return type;
}

std::vector<TensorPlace> placed(std::vector<TensorPlace> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const TensorPlace& t) {
      return std::pair(!whole_lines(t), -ir::size_of(t.type.dtype));
    };
    return rank(a) < rank(b);
  });
  size_t place = 0;
  for (TensorPlace& tensor : tensors) {
    tensor.offset = place;
    place += static_cast<size_t>(tensor.type.bytes());
  }
  return tensors;
}

std::string safetensors_header(const std::vector<TensorPlace>& tensors) {
  Json header = Json::object();
  for (const TensorPlace& tensor : tensors) {
    const auto end = tensor.offset + static_cast<size_t>(tensor.type.bytes());
    header[tensor.name] = {{"dtype", name_of(tensor.type.dtype)},
                           {"shape", tensor.type.shape},
                           {"data_offsets", {tensor.offset, end}}};
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.append((kLine - (kLengthBytes + text.size()) % kLine) % kLine, ' ');
  const auto length = static_cast<uint64_t>(text.size());
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

std::vector<TensorPlace> read_safetensors(std::string_view bytes, const std::string& origin) {
  return Reader(bytes, origin).run();
}

}  // namespace poptorch::storage
