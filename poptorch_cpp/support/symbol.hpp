// An interned string: cheap to copy and compare for equality, ordered by its text so that nothing
// depends on addresses. Symbols live until the process ends.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

namespace poptorch::support {

class Symbol {
 public:
  Symbol() : Symbol(std::string_view{}) {}
  Symbol(std::string_view text);                                       // NOLINT: implicit by design
  Symbol(const char* text) : Symbol(std::string_view(text)) {}         // NOLINT
  Symbol(const std::string& text) : Symbol(std::string_view(text)) {}  // NOLINT

  const std::string& text() const { return *text_; }
  bool empty() const { return text_->empty(); }
  friend bool operator==(Symbol a, Symbol b) { return a.text_ == b.text_; }
  friend bool operator<(Symbol a, Symbol b) { return *a.text_ < *b.text_; }
  friend std::ostream& operator<<(std::ostream& out, Symbol s);

 private:
  const std::string* text_;
};

}  // namespace poptorch::support
