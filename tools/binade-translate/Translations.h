//===- Translations.h - what the driver registers ---------------*- C++ -*-===//

#ifndef BINADE_TRANSLATE_TRANSLATIONS_H
#define BINADE_TRANSLATE_TRANSLATIONS_H

/// `--kernels-to-llvm`, `--kernels-to-assembly` and `--kernels-to-object`.
void registerKernelTranslations();

#endif // BINADE_TRANSLATE_TRANSLATIONS_H
