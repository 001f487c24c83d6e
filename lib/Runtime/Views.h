//===- Views.h - What a record reads and writes -----------------*- C++ -*-===//

#ifndef BINADE_LIB_RUNTIME_VIEWS_H
#define BINADE_LIB_RUNTIME_VIEWS_H

#include "binade/Plan/Plan.h"
#include <algorithm>

namespace binade {

/// Visits the views of a record, const or not, and of those inside: all but
/// the memory of libraries and the operands of a finish.
template <typename Record, typename Visit>
void forEachView(Record &record, Visit visit) {
  auto optional = [&](auto &view) {
    if (view)
      visit(*view);
  };
  if (auto *launch = std::get_if<plan::Launch>(&record.body)) {
    for (auto &segment : launch->segments)
      std::for_each(segment.operands.begin(), segment.operands.end(), visit);
  } else if (auto *matmul = std::get_if<plan::Matmul>(&record.body)) {
    visit(matmul->out);
    visit(matmul->lhs);
    visit(matmul->rhs);
    optional(matmul->lhsScale);
    optional(matmul->rhsScale);
    optional(matmul->bias);
  } else if (auto *convolution = std::get_if<plan::Convolution>(&record.body)) {
    visit(convolution->x);
    visit(convolution->weight);
    visit(convolution->y);
    optional(convolution->bias);
  } else if (auto *attention = std::get_if<plan::Attention>(&record.body)) {
    for (auto *view : {&attention->query, &attention->key, &attention->value,
                       &attention->y, &attention->lse})
      visit(*view);
    if (auto &own = attention->gradients)
      for (auto *view : {&own->dy, &own->dquery, &own->dkey, &own->dvalue})
        visit(*view);
  } else if (auto *copy = std::get_if<plan::Copy>(&record.body)) {
    visit(copy->from);
    visit(copy->to);
  } else {
    for (auto &inner : std::get<plan::Loop>(record.body).body)
      forEachView(inner, visit);
  }
}

} // namespace binade

#endif // BINADE_LIB_RUNTIME_VIEWS_H
