// golang.org/x/time/rate, measured as hbus_console/bench/loops.py measures ours: it takes its task as one JSON
// argument, says "ready", waits for "go" on stdin and answers "done" with nanoseconds a call.
//
//	{"count": calls of all goroutines together, "goroutines": 1}
//
// One goroutine is told in processor time of its own thread, several in that of the process; "wall_ns" is beside either.
// The garbage collector is off, and what the bare loop takes is subtracted.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/time/rate"
)

// The limits of ours beside it: nobody is ever refused.
const (
	limit = 1e9
	burst = 1e9
)

// Linux's clocks of processor time. Getrusage would be late by up to a tick of the scheduler.
const (
	ofProcess = 2
	ofThread  = 3
)

type task struct {
	Count      int `json:"count"`
	Goroutines int `json:"goroutines"`
}

type report struct {
	Count  int     `json:"count"`
	CPUNs  float64 `json:"cpu_ns"`
	WallNs float64 `json:"wall_ns"`
}

func main() {
	if len(os.Args) != 2 {
		fail("one argument: the task as JSON")
	}
	var given task
	check(json.Unmarshal([]byte(os.Args[1]), &given))
	debug.SetGCPercent(-1)
	limiter := rate.NewLimiter(limit, burst)
	share := given.Count / given.Goroutines
	var refused atomic.Int64
	ask := func() {
		var mine int64
		for range share {
			if !limiter.Allow() {
				mine++
			}
		}
		refused.Add(mine)
	}
	// What runs once is warm.
	limiter.Allow()

	waitForGo()
	measure := together
	if given.Goroutines == 1 {
		runtime.LockOSThread()
		measure = alone
	}
	bareCPU, bareWall := measure(given.Goroutines, func() {
		var mine int64
		for number := range share {
			if number < 0 {
				mine++
			}
		}
		refused.Add(mine)
	})
	cpu, wall := measure(given.Goroutines, ask)
	if refused.Load() > 0 {
		fail("it refused somebody")
	}
	count := share * given.Goroutines
	answer(report{count, float64(cpu-bareCPU) / float64(count), float64(wall-bareWall) / float64(count)})
}

func alone(_ int, work func()) (cpu, wall time.Duration) {
	began, used := time.Now(), processor(ofThread)
	work()
	return processor(ofThread) - used, time.Since(began)
}

func together(goroutines int, work func()) (cpu, wall time.Duration) {
	var everybody sync.WaitGroup
	began, used := time.Now(), processor(ofProcess)
	for range goroutines {
		everybody.Add(1)
		go func() {
			defer everybody.Done()
			work()
		}()
	}
	everybody.Wait()
	return processor(ofProcess) - used, time.Since(began)
}

func processor(clock uintptr) time.Duration {
	var used syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&used)), 0)
	if failed != 0 {
		fail(failed.Error())
	}
	return time.Duration(used.Nano())
}

func waitForGo() {
	fmt.Println("ready")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "go" {
		fail("no start signal")
	}
}

func answer(figures report) {
	line, err := json.Marshal(figures)
	check(err)
	fmt.Println("done " + string(line))
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(words string) {
	fmt.Fprintln(os.Stderr, "go_rate: "+words)
	os.Exit(1)
}
