//===- Kernels.c - Kernels with the compiler's calling convention ---------===//

#include <stdint.h>
#include <xmmintrin.h>

// to[i] += 1000 * value + i
void number(void *const *buffers, int64_t begin, int64_t end) {
  const float *value = buffers[0];
  float *to = buffers[1];
  for (int64_t i = begin; i < end; ++i)
    to[i] += 1000 * *value + (float)i;
}

// Writes the width of each block, which shows how items are scheduled.
void width(void *const *buffers, int64_t begin, int64_t end) {
  int64_t *to = buffers[0];
  for (int64_t i = begin; i < end; ++i)
    to[i] = end - begin;
}

// Writes the thread pointer of the thread that ran item i.
void thread(void *const *buffers, int64_t begin, int64_t end) {
  int64_t *to = buffers[0], pointer;
  __asm__ volatile("mov %%fs:0, %0" : "=r"(pointer));
  for (int64_t i = begin; i < end; ++i)
    to[i] = pointer;
}

// partial[i] = sum of row i of a matrix of 4 columns; the finish adds them.
void sum(void *const *buffers, int64_t begin, int64_t end) {
  const float *rows = buffers[0];
  float *partial = buffers[1];
  for (int64_t i = begin; i < end; ++i) {
    partial[i] = 0;
    for (int64_t j = 0; j < 4; ++j)
      partial[i] += rows[4 * i + j];
  }
}
void sum_finish(void *const *buffers, int64_t items) {
  const float *partial = buffers[0];
  float *total = buffers[1];
  *total = 0;
  for (int64_t i = 0; i < items; ++i)
    *total += partial[i];
}

// Writes the control word of the thread that ran item i, and a subnormal value.
void mode(void *const *buffers, int64_t begin, int64_t end) {
  uint32_t *control = buffers[0];
  volatile float *product = buffers[1];
  for (int64_t i = begin; i < end; ++i) {
    control[i] = _mm_getcsr() & ~0x3fu;
    volatile float small = 1e-30f;
    product[i] = small * 1e-10f;
  }
}

void answer(void *const *buffers, int64_t begin, int64_t end) {
  *(float *)buffers[0] = ANSWER;
}

// One step of w <- w - lr d/dw mean (w x - t)^2 over four samples. If the
// gradient is not finite, only `running` and the counter of rng change.
void regression(void *const *buffers, int64_t begin, int64_t end) {
  float *w = buffers[0];
  const float *x = buffers[1];
  const int64_t *t = buffers[2];
  const double *lr = buffers[3];
  float *loss = buffers[4], *gradient = buffers[5];
  uint8_t *foundInf = buffers[6];
  int64_t *step = buffers[7];
  float *running = buffers[8];
  int64_t *rng = buffers[9];
  *loss = *gradient = 0;
  for (int64_t i = 0; i < 4; ++i) {
    float error = *w * x[i] - (float)t[i];
    *loss += error * error / 4;
    *gradient += error * x[i] / 2;
  }
  *running = *loss;
  rng[1] += 1;
  *foundInf = !(*gradient - *gradient == 0);
  if (*foundInf)
    return;
  *w -= (float)*lr * *gradient;
  *step += 1;
}
