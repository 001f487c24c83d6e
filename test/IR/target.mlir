// RUN: binade-opt %s | binade-opt | FileCheck %s

// Each optional group of a target is read back as it is printed, with any of
// the other groups present or absent.

// CHECK: @only_a_piece() attributes {target = #binade.target<"cpu", piece = 4096>}
func.func private @only_a_piece() attributes {target = #binade.target<"cpu", piece = 4096>}
// CHECK: @only_attention() attributes {target = #binade.target<"cuda:sm_80", piece = 4096, attention = [f16, bf16], most = 128>}
func.func private @only_attention() attributes {target = #binade.target<"cuda:sm_80", piece = 4096, attention = [f16, bf16], most = 128>}
// CHECK: @only_codes() attributes {target = #binade.target<"cuda:sm_89", piece = 4096, codes = [f8E4M3FN], multiple = 16>}
func.func private @only_codes() attributes {target = #binade.target<"cuda:sm_89", piece = 4096, codes = [f8E4M3FN], multiple = 16>}
// CHECK: @codes_in_blocks() attributes {target = #binade.target<"cuda:sm_90", piece = 4096, codes = [f8E4M3FN, f8E5M2], multiple = 16, block = 128>}
func.func private @codes_in_blocks() attributes {target = #binade.target<"cuda:sm_90", piece = 4096, codes = [f8E4M3FN, f8E5M2], multiple = 16, block = 128>}
// CHECK: @codes_with_attention() attributes {target = #binade.target<"cuda:sm_89", piece = 4096, codes = [f8E4M3FN], multiple = 16, attention = [f16], most = 64>}
func.func private @codes_with_attention() attributes {target = #binade.target<"cuda:sm_89", piece = 4096, codes = [f8E4M3FN], multiple = 16, attention = [f16], most = 64>}
// CHECK: @all() attributes {target = #binade.target<"cuda:sm_90", piece = 4096, codes = [f8E4M3FN], multiple = 16, block = 128, attention = [f16], most = 64>}
func.func private @all() attributes {target = #binade.target<"cuda:sm_90", piece = 4096, codes = [f8E4M3FN], multiple = 16, block = 128, attention = [f16], most = 64>}
