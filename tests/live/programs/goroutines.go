// Work on goroutines, in functions whose CPU time is known.
//
// goroutines SECONDS: prints "name nanoseconds" for each function. They take turns on one thread,
// so that the time of its CPU clock between two turns is all of one function's.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

type number interface{ ~int | ~float64 }

type shape struct{ side int }

func now() int64 {
	var t syscall.Timespec // of CLOCK_THREAD_CPUTIME_ID
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 3, uintptr(unsafe.Pointer(&t)), 0)
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
	end := time.Now().Add(time.Duration(seconds * 1e9))
	for time.Now().Before(end) {
		for name, one := range work {
			go func(name string, one func() int) {
				runtime.LockOSThread()
				before := now()
				result := one()
				spent[name] += now() - before
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
