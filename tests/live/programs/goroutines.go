// Work on goroutines, in functions whose CPU time is known.
//
// goroutines SECONDS: takes so much CPU time, and prints "name nanoseconds" for each function. One
// goroutine works at a time, locked to its thread, so that the thread's clock is its own.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

type number interface{ ~int | ~float64 }

type shape struct{ side int }

// CLOCK_PROCESS_CPUTIME_ID and CLOCK_THREAD_CPUTIME_ID
const ofProcess, ofThread = 2, 3

func clock(which uintptr) int64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, which, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

//go:noinline
func sumAll[T number](n int) T {
	var total T
	for i := 0; i < n; i++ {
		total += T(i) * T(i)
	}
	return total
}

func mix(a, b int) int { return (a ^ b) * 31 % 1000003 }

//go:noinline
func (s *shape) area(n int) int {
	total := s.side
	for i := 0; i < n; i++ {
		total = mix(total, i)
	}
	return total
}

//go:noinline
func descend(depth, n int) int {
	if depth == 0 {
		return (&shape{3}).area(n)
	}
	return descend(depth-1, n) + 1
}

//go:noinline
func garbage(n int) int {
	parts := []string{}
	for i := 0; i < n; i++ {
		parts = append(parts, strings.Repeat("k", 20)+strconv.Itoa(i*7919%n))
	}
	sort.Strings(parts)
	return len(parts)
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	spent := map[string]int64{}
	work := map[string]func() int{
		"sumAll":  func() int { return int(sumAll[float64](4000000)) },
		"descend": func() int { return descend(20, 600000) },
		"garbage": func() int { return garbage(4000) },
	}
	total, done := 0, make(chan int)
	for float64(clock(ofProcess)) < seconds*1e9 {
		for name, one := range work {
			go func(name string, one func() int) {
				runtime.LockOSThread()
				before := clock(ofThread)
				result := one()
				spent[name] += clock(ofThread) - before
				runtime.UnlockOSThread()
				done <- result
			}(name, one)
			total += <-done
		}
	}
	for name, ns := range spent {
		fmt.Println(name, ns)
	}
	if total == 0 {
		fmt.Println("none", total)
	}
}
