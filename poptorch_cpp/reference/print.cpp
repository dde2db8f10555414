// The kernel of print_tensor: copies its operand and prints it on stderr, in one write.
//
// Attribute `format` holds eight fields, a line each: summarise threshold, edge items, line width,
// digits, float format (auto, fixed, scientific, none), separator, opening and closing bracket.
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "reference/kernels.hpp"

namespace poptorch::reference {
namespace {

struct Format {
  std::array<std::string, 8> fields{"1000", "3", "80", "4", "auto", ", ", "(", ")"};
  explicit Format(const std::string& text) {
    std::istringstream in(text);
    for (std::string& field : fields) {
      std::string line;
      if (!std::getline(in, line)) break;
      field = line;
    }
  }
  int64_t number(size_t field) const { return std::stoll(fields[field]); }
};

class Printer {
 public:
  Printer(const Args& a, Format format)
      : format_(std::move(format)),
        shape_(a.shape(0)),
        floats_(ir::is_float(a.type(0).dtype)),
        values_(a.in(0)),
        edge_(a.type(0).elements() > format_.number(0) ? format_.number(1) : INT64_MAX) {
    for (double v : values_) scientific_ |= std::isfinite(v) && std::fabs(v) >= 1e8;
    if (format_.fields[4] != "auto") scientific_ = format_.fields[4] == "scientific";
  }

  std::string text() {
    write(0, 0, ir::element_count(shape_));
    return out_;
  }

 private:
  void write(size_t axis, int64_t first, int64_t count) {
    if (axis == shape_.size()) return put(element(values_[static_cast<size_t>(first)]));
    put(format_.fields[6]);
    const int64_t size = shape_[axis], inner = size ? count / size : 0;
    const bool innermost = axis + 1 == shape_.size();
    for (int64_t i = 0; i < size; ++i) {
      if (i > 0) put(format_.fields[5]);
      if (i > 0 && (!innermost || column_ > format_.number(2))) new_line(axis + 1);
      if (size - edge_ > edge_ && i == edge_) {  // edge_ may be the largest integer
        put("...");
        i = size - edge_ - 1;
      } else {
        write(axis + 1, first + i * inner, inner);
      }
    }
    put(format_.fields[7]);
  }

  std::string element(double value) const {
    char text[64];
    const int digits = static_cast<int>(format_.number(3));
    if (!floats_) {
      std::snprintf(text, sizeof text, "%.0f", value);
    } else if (format_.fields[4] == "none") {
      std::snprintf(text, sizeof text, "%g", value);
    } else {
      std::snprintf(text, sizeof text, scientific_ ? "%.*e" : "%.*f", digits, value);
    }
    return text;
  }

  void put(const std::string& text) {
    out_ += text;
    column_ += static_cast<int64_t>(text.size());
  }
  void new_line(size_t indent) {
    out_ += '\n' + std::string(indent, ' ');
    column_ = static_cast<int64_t>(indent);
  }

  Format format_;
  Shape shape_;
  bool floats_;
  Doubles values_;
  int64_t edge_;
  bool scientific_ = false;
  std::string out_;
  int64_t column_ = 0;
};

void print_tensor(const KernelCall& call) {
  const Args a(call);
  std::memmove(a.result_data(), a.data(0), static_cast<size_t>(a.result().bytes()));
  const std::string text =
      a.text("title") + ": " + Printer(a, Format(a.text("format"))).text() + '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

void add_print_kernels(Table& table) { table["print_tensor"] = {print_tensor}; }

}  // namespace poptorch::reference
