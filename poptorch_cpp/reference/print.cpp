// The kernel of print_tensor: copies its operand and prints it on stderr, in one write.
//
// A vector is one row. A tensor of more dimensions has its brackets on separate lines; each element
// of the first dimension has a line, indented by one more blank.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "reference/kernels.hpp"

namespace poptorch::reference {
namespace {

// The format of floats that gives the requested number of digits.
struct Notation {
  const char* format = "%g";
  int behind_point = 0;  // for other formats than %g
};

Notation notation_for(const Doubles& values, const std::string& asked, int digits) {
  if (asked == "none" || (asked == "auto" && digits == 0)) return {};
  if (digits == 0) return {asked == "fixed" ? "%.*f" : "%.*e", 6};
  double most = 0, least = INFINITY;
  for (const double value : values) {
    if (!std::isfinite(value) || value == 0) continue;
    most = std::max(most, std::fabs(value));
    least = std::min(least, std::fabs(value));
  }
  const int before = most < 10 ? 1 : static_cast<int>(std::floor(std::log10(most))) + 1;
  const int behind = std::max(digits - before, 0);
  // Fixed notation would exceed the requested digits, or not show any digit of the smallest
  // element.
  const bool needs_exponents = before > digits || least < 0.5 * std::pow(10.0, -behind);
  const bool fixed = asked == "fixed" || (asked == "auto" && !needs_exponents);
  return fixed ? Notation{"%.*f", behind} : Notation{"%.*e", digits - 1};
}

class Printer {
 public:
  explicit Printer(const Args& a)
      : shape_(a.shape(0)),
        edge_(shortens(a) ? a.integer("edge_items") : INT64_MAX),
        line_width_(a.integer("max_line_width")),
        separator_(a.text("separator")),
        open_(a.text("open_bracket")),
        close_(a.text("close_bracket")) {
    std::vector<size_t> shown;
    collect(0, 0, &shown);
    const auto digits = static_cast<int>(a.integer("digits"));
    const std::string& format = a.text("float_format");
    if (ir::is_float(a.type(0).dtype)) {
      write_floats(a.in(0), shown, format, digits);
    } else {
      const Integers values = a.ints(0);
      for (const size_t i : shown) elements_.push_back(std::to_string(values[i]));
    }
    if (digits > 0 && format != "none") align();
  }

  std::string text() {
    write(0);
    return std::move(out_);
  }

 private:
  static constexpr int64_t kLeftOut = -1;

  static bool shortens(const Args& a) {
    const int64_t threshold = a.integer("summarise_threshold");
    return threshold > 0 && a.type(0).elements() > threshold;
  }

  // Returns the places along an axis that are shown, with kLeftOut between both ends.
  std::vector<int64_t> places(size_t axis) const {
    std::vector<int64_t> result;
    const int64_t size = shape_[axis];
    for (int64_t i = 0; i < size; ++i) {
      if (i == edge_ && size - edge_ > edge_) {  // edge_ may be the largest integer
        result.push_back(kLeftOut);
        i = size - edge_;
      }
      if (i < size) result.push_back(i);
    }
    return result;
  }

  void collect(size_t axis, int64_t first, std::vector<size_t>* shown) const {
    if (axis == shape_.size()) return shown->push_back(static_cast<size_t>(first));
    for (const int64_t i : places(axis)) {
      if (i != kLeftOut) collect(axis + 1, first * shape_[axis] + i, shown);
    }
  }

  void write_floats(const Doubles& all, const std::vector<size_t>& shown, const std::string& format,
                    int digits) {
    Doubles values;
    for (const size_t i : shown) values.push_back(all[i]);
    const Notation notation = notation_for(values, format, digits);
    for (const double value : values) {
      char text[512];
      if (std::isnan(value)) {
        std::snprintf(text, sizeof text, "nan");
      } else if (notation.format[1] == 'g') {
        std::snprintf(text, sizeof text, "%g", value);
      } else {
        std::snprintf(text, sizeof text, notation.format, notation.behind_point, value);
      }
      elements_.emplace_back(text);
    }
  }

  void align() {
    size_t width = 0;
    for (const std::string& element : elements_) width = std::max(width, element.size());
    for (std::string& element : elements_) element.insert(0, width - element.size(), ' ');
  }

  void write(size_t axis) {
    if (shape_.empty()) return put(elements_[0]);
    put(open_);
    if (axis + 1 == shape_.size()) {
      write_row(axis);
    } else {
      for (const int64_t i : places(axis)) {
        new_line(axis + 1);
        if (i == kLeftOut) {
          put("...");
        } else {
          write(axis + 1);
        }
      }
      new_line(axis);
    }
    put(close_);
  }

  // Breaks lines after separators, so that they stay within the width if each element fits.
  void write_row(size_t axis) {
    const std::vector<int64_t> all = places(axis);
    for (size_t k = 0; k < all.size(); ++k) {
      const std::string element = all[k] == kLeftOut ? "..." : elements_[next_++];
      const std::string& behind = k + 1 < all.size() ? separator_ : close_;
      const auto end = column_ + static_cast<int64_t>(element.size() + behind.size());
      if (k > 0 && line_width_ > 0 && end > line_width_) new_line(axis + 2);
      put(element);
      if (k + 1 < all.size()) put(separator_);
    }
  }

  void put(const std::string& text) {
    out_ += text;
    column_ += static_cast<int64_t>(text.size());
  }
  void new_line(size_t indent) {
    out_ += '\n' + std::string(indent, ' ');
    column_ = static_cast<int64_t>(indent);
  }

  const Shape& shape_;
  const int64_t edge_, line_width_;
  const std::string &separator_, &open_, &close_;
  std::vector<std::string> elements_;  // the shown ones, in order
  size_t next_ = 0;                    // the next of them
  std::string out_;
  int64_t column_ = 0;
};

void print_tensor(const KernelCall& call) {
  const Args a(call);
  if (std::byte* to = a.result_data()) {
    std::memmove(to, a.data(0), static_cast<size_t>(a.result().bytes()));
  }
  const std::string text = a.text("title") + ": " + Printer(a).text() + '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

void add_print_kernels(Table& table) { table["print_tensor"] = {print_tensor}; }

}  // namespace poptorch::reference
